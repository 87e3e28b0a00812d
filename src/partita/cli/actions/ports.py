"""What the devices of a cluster share of their ports, as measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.table import Table

from partita.cli.output import progress_bar
from partita.cluster import Cluster, Device, Link
from partita.fabric import Endpoint
from partita.leader.ports import PortSample, SharedRate, measure_port
from partita.report import draw_table
from partita.report.tables import NOTHING, TableData
from partita.units import format_bandwidth


def measure_ports(
    endpoint: Endpoint, names: Sequence[str], links: Sequence[Link]
) -> list[PortSample]:
    """Samples of the devices that have two links, in or out, of no shared medium.

    Args:
        links: Between ``names``, as measured one at a time.

    Raises:
        RunError: A worker is lost, or a message did not arrive.
    """
    samples = []
    with progress_bar("ports") as advance:
        for done, name in enumerate(names):
            advance(done, len(names), name)
            samples.append(measure_port(endpoint, name, links))
    return [sample for sample in samples if sample.sends or sample.receives]


def describe_ports(cluster: Cluster, samples: Sequence[PortSample]) -> list[dict[str, Any]]:
    """The figures of a reply, beside what the file says."""
    return [
        {
            "device": sample.device,
            "port_bytes_per_s": sample.bytes_per_s,
            "file_bytes_per_s": cluster.device(sample.device).port_bytes_per_s,
            "sends": asdict(sample.sends) if sample.sends else None,
            "receives": asdict(sample.receives) if sample.receives else None,
        }
        for sample in samples
    ]


def find_ports(cluster: Cluster, samples: Sequence[PortSample]) -> dict[str, float]:
    """Measured ports of devices for which the file names none, in bytes per second.

    Figures keep five digits: those beyond are noise.
    """
    return {
        sample.device: float(f"{sample.bytes_per_s:.5g}")
        for sample in samples
        if sample.bytes_per_s and cluster.device(sample.device).port_bytes_per_s is None
    }


def place_port(device: Device, ports: Mapping[str, float]) -> Device:
    """The device with its port, where there is one; what it had stays."""
    return replace(device, port_bytes_per_s=ports.get(device.name, device.port_bytes_per_s))


def draw_ports(cluster: Cluster, samples: Sequence[PortSample]) -> Table:
    """What each device sends, and receives, over all its links at once."""
    rows = tuple(
        (
            sample.device,
            _show_rate(sample.bytes_per_s),
            _show_rate(cluster.device(sample.device).port_bytes_per_s),
            *_show_way(sample.sends),
            *_show_way(sample.receives),
        )
        for sample in samples
    )
    ways = ("sends to all at once", "takes", "receives from all at once", "takes")
    return draw_table(TableData("Ports", ("device", "port", "in the file", *ways), rows))


def _show_way(way: SharedRate | None) -> tuple[str, str]:
    return (
        (NOTHING, NOTHING) if way is None else (_show_rate(way.bytes_per_s), f"{way.slowing:.2f}x")
    )


def _show_rate(bytes_per_s: float | None) -> str:
    return NOTHING if bytes_per_s is None else format_bandwidth(bytes_per_s)
