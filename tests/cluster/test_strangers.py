"""Entries for devices that have none of their own."""

from __future__ import annotations

import pytest

from partita.cluster import UNMEASURED, Cluster, dump_cluster, load_cluster
from partita.errors import ClusterError

HEAD = """
[cluster]
name = "garage"
requester = "camera"

[[device]]
name = "camera"
kind = "raspberry-pi-4"

[[device]]
name = "box"
kind = "jetson-nano"

[[link]]
between = ["*", "*"]
bandwidth = "200 Mbit/s"
per_message = "1 ms"

[[link]]
from = "*"
to = "box"
bandwidth = "20 Mbit/s"

[[link]]
between = ["camera", "box"]
bandwidth = "100 Mbit/s"
per_message = "0 s"
"""
ANY = '[[device]]\nname = "*"\n'


def test_a_stranger_is_what_its_entry_says() -> None:
    """Its links are those of tables that speak of all; tables of named devices are not for it."""
    cluster = load_cluster(f'{HEAD}{ANY}kind = "raspberry-pi-5"\nport = "94 Mbit/s"'.encode())
    assert cluster.names == ("camera", "box")
    grown = cluster.with_stranger("pi")
    pi = grown.device("pi")
    assert (pi.kind, pi.memory_bytes, pi.port_bytes_per_s) == ("raspberry-pi-5", 8e9, 94e6 / 8)
    rates = {pair: link.bandwidth_bytes_per_s * 8 / 1e6 for pair, link in grown.link_map.items()}
    assert rates == {
        ("camera", "box"): 100,
        ("box", "camera"): 100,
        ("pi", "camera"): 200,
        ("camera", "pi"): 200,
        ("pi", "box"): 20,
        ("box", "pi"): 200,
    }
    assert grown.link_map["pi", "camera"].ports[0].name == "pi out"
    both = grown.with_stranger("pad", memory_bytes=10**9)
    assert both.device("pad").memory_bytes == 10**9
    assert both.link_map["pad", "pi"].bandwidth_bytes_per_s == 25e6


def test_a_plan_for_the_named_devices_is_for_the_file_with_the_entry_too() -> None:
    """Who may come is no part of the structure; who has come is."""
    cluster = load_cluster(f"{HEAD}{ANY}".encode())
    assert cluster.hash == load_cluster(HEAD.encode()).hash
    assert cluster.with_stranger("pi").hash != cluster.hash


@pytest.mark.parametrize(
    "entry", ["", 'kind = "raspberry-pi-5"', 'kind = "this-machine"\nmemory = "1 GB"']
)
def test_dump_and_load_give_the_same_cluster(entry: str) -> None:
    """Also where later tables say less than those for all."""
    cluster = load_cluster(f"{HEAD}{ANY}{entry}\n[lab]\nslow_down = 3".encode())
    again = load_cluster(dump_cluster(cluster).encode())
    assert again == cluster
    assert again.with_stranger("pi") == cluster.with_stranger("pi")


def test_without_anything_its_worker_says_what_it_has() -> None:
    """Neither kind nor memory has to be given: it is measured, and tells its memory."""
    cluster = load_cluster(f"{HEAD}{ANY}".encode())
    pi = cluster.with_stranger("pi", memory_bytes=5 * 10**8).device("pi")
    assert (pi.kind, pi.memory_bytes) == (UNMEASURED, 5 * 10**8)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (f"{ANY}{ANY}", "name '*' is used 2 times, allowed once"),
        (f'{ANY}address = "tcp/192.0.2.7:7447"', "device[2].address: is one device's own"),
        (f'{ANY}endpoint = "http://h:1/v2/models/m"', "device[2].endpoint: is one device's own"),
        (f'{ANY}kind = "this-machine"', "device[2].memory: missing"),
        ('[[device]]\nname = "**"\nkind = "laptop"', "or '*' for strangers"),
        ('[[link]]\nfrom = "*"\nto = "moon"\nbandwidth = "1 Mbit/s"', "allowed are *, camera, box"),
    ],
)
def test_what_an_entry_cannot_say_is_named(entry: str, told: str) -> None:
    """With its key, like all that is wrong with a file."""
    with pytest.raises(ClusterError) as caught:
        load_cluster(f"{HEAD}{entry}".encode())
    assert told in caught.value.message


def test_who_may_not_come_is_refused() -> None:
    """Without an entry nobody, and never under a name that is taken."""
    with pytest.raises(ClusterError, match="'pi' cannot join cluster 'garage': it is in no entry"):
        load_cluster(HEAD.encode()).with_stranger("pi")
    cluster: Cluster = load_cluster(f"{HEAD}{ANY}".encode())
    with pytest.raises(ClusterError, match="'box' cannot join cluster 'garage': it is there"):
        cluster.with_stranger("box")
