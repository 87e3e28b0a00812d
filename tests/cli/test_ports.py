"""Measured ports: what is written, what is kept, what is shown."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from partita.cli.actions.ports import describe_ports, draw_ports, find_ports, place_port
from partita.cluster import Cluster, Device, dump_links, load_cluster
from partita.leader.ports import PortSample, SharedRate
from tests.cli.conftest import Ask

FREE, LIMITED = SharedRate(36e6, 12e6, 1.0), SharedRate(11.87654e6, 11.5e6, 2.9)
CLUSTER = Cluster.of([Device("a"), Device("b", port_bytes_per_s=5e6), Device("c")])
SAMPLES = [PortSample(name, LIMITED, FREE) for name in "ab"] + [PortSample("c", FREE, None)]


def test_a_port_is_written_where_the_file_has_none() -> None:
    """The user's own stays, and a port that no limit was seen of is not made up."""
    ports = find_ports(CLUSTER, SAMPLES)
    assert ports == {"a": 11.877e6}
    placed = [place_port(device, ports).port_bytes_per_s for device in CLUSTER.devices]
    assert placed == [ports["a"], 5e6, None]


def test_what_is_in_the_file_stands_beside_what_was_measured() -> None:
    """In the reply and in the table."""
    shown = describe_ports(CLUSTER, SAMPLES)
    figures = [(port["port_bytes_per_s"], port["file_bytes_per_s"]) for port in shown]
    assert figures == [(LIMITED.bytes_per_s, None), (LIMITED.bytes_per_s, 5e6), (None, None)]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(draw_ports(CLUSTER, SAMPLES))
    row = next(line for line in console.export_text().splitlines() if line.lstrip().startswith("b"))
    assert " ".join(row.split()) == "b 95 Mbit/s 40 Mbit/s 95 Mbit/s 2.90x 288 Mbit/s 1.00x"


def test_a_file_of_links_tells_ports_in_comments() -> None:
    """It has no tables of devices: the links alone are data."""
    text = dump_links(CLUSTER.links, {"a": 11.5e6})
    assert '# a: port = "92 Mbit/s"' in text.splitlines()
    assert set(tomllib.loads(text)) == {"link"}
    assert "port" not in dump_links(CLUSTER.links, {})


@pytest.mark.slow
def test_ports_of_an_emulated_cluster_are_measured(ask: Ask, folder: Path) -> None:
    """All that a device sends to two others, or receives from them, comes to its port."""
    devices = [f'[[device]]\nname = "{n}"\nkind = "this-machine"\nmemory = "1 GB"' for n in "abc"]
    devices[0] += '\nport = "80 Mbit/s"'
    (folder / "three.toml").write_text(
        '[cluster]\nname = "three"\nrequester = "a"\n\n'
        + "\n\n".join(devices)
        + '\n\n[[link]]\nbetween = ["*", "*"]\nbandwidth = "80 Mbit/s"\n'
    )
    words = ["--links", "--cluster", "three.toml", "-o", "links.toml", "--json"]
    ports = ask("profile", *words).reply["ports"]
    assert isinstance(ports, list)
    assert ports[0]["port_bytes_per_s"] == pytest.approx(10e6, rel=0.1)
    assert [port["file_bytes_per_s"] for port in ports] == [10e6, None, None]
    assert [port["port_bytes_per_s"] for port in ports[1:]] == [None, None]
    assert load_cluster(folder / "three.toml").device("a").port_bytes_per_s == 10e6
