"""Devices like one that is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.cluster import Cluster, Device, Link, as_kind, copy_device
from partita.errors import ClusterError

LINKS = (
    Link("cam", "pi", 1e6, 0.001),
    Link("pi", "cam", 2e6, 0.002),
    Link("pi", "box", 3e6, 0.003, medium="air"),
)
CLUSTER = Cluster.of(
    [Device("cam"), Device("pi", address="tcp/127.0.0.1:7000", slow_down=4.0), Device("box")],
    requester="cam",
    links=LINKS,
)


def test_a_copy_has_the_links_of_its_pattern() -> None:
    """To the others as the pattern's, between the two as the pattern's to the requester."""
    grown = copy_device(CLUSTER, "pi", ["pi-2"])
    assert grown.names == ("cam", "pi", "box", "pi-2")
    added = grown.device("pi-2")
    assert (added.address, added.slow_down) == (None, 4.0)
    pairs = {link.pair: link for link in grown.links}
    assert len(pairs) == len(grown.links) == 8
    assert pairs["cam", "pi-2"] == replace(LINKS[0], target="pi-2")
    assert pairs["pi-2", "cam"] == replace(LINKS[1], source="pi-2")
    assert pairs["pi-2", "box"] == replace(LINKS[2], source="pi-2")
    for pair in (("pi", "pi-2"), ("pi-2", "pi")):
        assert pairs[pair].bandwidth_bytes_per_s == 2e6


def test_copies_reach_each_other() -> None:
    """Of three copies each has links to both others."""
    grown = copy_device(CLUSTER, "pi", ["a", "b", "c"])
    assert all(grown.link(x, y) for x in "abc" for y in "abc" if x != y)


def test_ports_are_those_of_the_copy() -> None:
    """A copy of a device with a port has a port of its own."""
    devices = tuple(
        replace(d, port_bytes_per_s=1e5) if d.name == "pi" else d for d in CLUSTER.devices
    )
    grown = copy_device(replace(CLUSTER, devices=devices), "pi", ["pi-2"])
    link = grown.link("pi-2", "cam")
    assert link is not None
    assert [port.name for port in link.ports] == ["pi-2 out"]


def test_a_kind_of_the_catalogue_brings_its_own_numbers() -> None:
    """Memory and cores are the kind's; nothing of the device that it was stays but its name."""
    changed = as_kind(CLUSTER, "pi", "raspberry-pi-4").device("pi")
    assert (changed.kind, changed.slow_down, changed.profile) == ("raspberry-pi-4", 1.0, None)
    assert changed.memory_bytes > 10**9


def test_names_that_cannot_be_are_refused() -> None:
    """One that is there already, twice the same, and a pattern that is not there."""
    for copies in (["box"], ["new", "new"]):
        with pytest.raises(ClusterError, match="it is there"):
            copy_device(CLUSTER, "pi", copies)
    with pytest.raises(ClusterError, match="not in cluster"):
        copy_device(CLUSTER, "nobody", ["new"])
