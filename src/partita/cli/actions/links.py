"""What messages between a cluster's workers cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from rich.table import Table

from partita.api import open_endpoint
from partita.cli.access import read_access, say_where
from partita.cli.actions.ports import (
    describe_ports,
    draw_ports,
    find_ports,
    measure_ports,
)
from partita.cli.flags import AccessFlags
from partita.cli.output import Reply, check_output, progress_bar, say, write_output
from partita.cluster import Cluster, Link, dump_links, load_cluster
from partita.errors import InputError
from partita.fabric import Endpoint
from partita.leader import LinkSample, measure_link
from partita.leader.worker_group import WorkerGroup
from partita.profile import fit_link
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bandwidth, format_seconds

#: Message sizes between two workers, in bytes.
_SIZES = (0, 4096, 65536, 262144, 1048576)
#: Seconds that workers may take to appear.
_WAIT_S = 10.0


def profile_links(path: Path | None, output: Path | None, access: AccessFlags) -> Reply:
    """Measure every link and port of a cluster's workers, emulated ones if need be.

    Raises:
        InputError: No cluster file is given, or the file cannot be written.
        RunError: A worker is missing; the message names it.
    """
    reach = read_access(access)
    if path is None:
        raise InputError("--links needs --cluster FILE.", subject="--cluster")
    check_output(output, path)
    cluster = load_cluster(path)
    say_where(cluster, reach)
    say("connecting to the workers")
    with open_endpoint(cluster, reach) as endpoint:
        WorkerGroup(endpoint, cluster.names).wait(_WAIT_S)
        figures = measure_links(endpoint, cluster, cluster.names)
        links = [make_link(cluster, link) for link in figures]
        ports = measure_ports(endpoint, cluster.names, links)
    payload = {"links": figures, "ports": describe_ports(cluster, ports)}
    reply = Reply(payload, [draw_links(figures)])
    if ports:
        reply.shown.append(draw_ports(cluster, ports))
    if output is not None:
        write_output(output, dump_links(links, find_ports(cluster, ports)).encode())
        reply.shown.append(f"Written to {output}")
    return reply


def measure_links(
    endpoint: Endpoint, cluster: Cluster, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The figures of links between ``names``: of those in the file, of all where it has none.

    Raises:
        RunError: A worker is lost, or a message did not arrive.
    """
    pairs = [pair for pair in permutations(names, 2) if cluster.link(*pair) or not cluster.links]
    links = []
    with progress_bar("links") as advance:
        for done, (source, target) in enumerate(pairs):
            advance(done, len(pairs), f"{source} to {target}")
            samples = measure_link(endpoint, source, target, _SIZES)
            links.append(_describe_link(source, target, samples))
    return links


def _describe_link(source: str, target: str, samples: Sequence[LinkSample]) -> dict[str, Any]:
    """One link's figures: samples by size, and the line through them."""
    cost = fit_link([(sample.size_bytes, sample.seconds) for sample in samples])
    return {
        "from": source,
        "to": target,
        "message_s": cost.per_message_s,
        "bytes_per_s": cost.bytes_per_s,
        "samples": [
            {
                "bytes": sample.size_bytes,
                "seconds": sample.seconds,
                "spread_s": sample.spread_s,
                "count": sample.count,
            }
            for sample in samples
        ],
    }


def make_link(cluster: Cluster, figures: Mapping[str, Any]) -> Link:
    """A measured link; what it shares the air with stays as the file has it.

    Figures keep five digits: those beyond are noise.
    """
    before = cluster.link(figures["from"], figures["to"])
    return Link(
        figures["from"],
        figures["to"],
        float(f"{figures['bytes_per_s']:.5g}"),
        latency_s=float(f"{figures['message_s']:.5g}"),
        medium=before.medium if before is not None else None,
    )


def draw_links(links: Sequence[dict[str, Any]]) -> Table:
    """Links, rates and the seconds of each message size, as a table."""
    rows = tuple(
        (
            f"{link['from']} to {link['to']}",
            format_seconds(link["message_s"]),
            format_bandwidth(link["bytes_per_s"]),
            *(format_seconds(sample["seconds"]) for sample in link["samples"]),
        )
        for link in links
    )
    columns = ("link", "per message", "rate", *(f"{size:,} B" for size in _SIZES))
    return draw_table(TableData("Links", columns, rows))
