"""Which staleness fits a cluster, in tables and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import RenderableType

from partita.cli.actions.separable_flags import naming_flags
from partita.cli.costs import read_cost
from partita.cli.flags import ModelFiles
from partita.cli.output import Reply, progress_bar
from partita.cluster import load_cluster
from partita.cost import CostModel
from partita.graph import Graph
from partita.report.tables import TableData
from partita.report.text import draw_table
from partita.separable.advice import Advice, DeviceNeed, Service, Share, advise
from partita.separable.architecture import Architecture
from partita.units import format_bytes, format_seconds

_NEEDS = ("device", "MMAC/s", "link Mbit/s", "message", "block", "by the figure", "hides it")
_SERVES = (
    "staleness", "links from Mbit/s", "devices to MMAC/s", "of the ring's bytes", "latency", "on",
)  # fmt: skip

_SHARES = ("devices", "MMAC", "weights", "memory", "latency", "on")


@dataclass(frozen=True)
class Wanted:
    """The network that is asked about.

    Attributes:
        network: As ``4x16d-56``: paths, width of a path, depth.
        halves: Whether features travel as 16-bit floats.
        budget_s: Of the search that divides the plain network.
        profiles: Measured ones: texts ``FILE`` or ``DEVICE=FILE``.
    """

    network: str
    groups: int
    classes: int
    halves: bool
    budget_s: float
    profiles: Sequence[str] | None


def advise_cluster(path: Path, wanted: Wanted) -> Reply:
    """What staleness serves, needs and takes on a cluster, and what the plain network does.

    Raises:
        ClusterError: The cluster file cannot be used.
        ModelError: There is no such network.
        InputError: There is nothing to place.
    """
    cluster = load_cluster(path)
    with naming_flags(
        **dict.fromkeys(("depth", "cardinality", "width"), f"--network '{wanted.network}'")
    ):
        architecture = Architecture.parse(
            wanted.network, groups=wanted.groups, classes=wanted.classes
        )

    def make_cost(graph: Graph) -> CostModel:
        files = ModelFiles(path, path, None, wanted.profiles, "table")
        return read_cost(graph, cluster, files)

    with progress_bar("advising") as advance:
        told: list[str] = []

        def tell(what: str) -> None:
            told.append(what)
            advance(len(told) - 1, max(len(told), 4), what)

        advice = advise(
            cluster,
            architecture,
            make_cost,
            halves=wanted.halves,
            budget_s=wanted.budget_s,
            progress=tell,
        )
    return Reply(_payload(advice), [*_tables(advice), *advice.words()])


def _payload(advice: Advice) -> dict[str, object]:
    return {
        "network": str(advice.architecture),
        "needs": [asdict(need) for need in advice.needs],
        "staleness": [asdict(service) for service in advice.services],
        "shares": [asdict(share) for share in advice.shares],
        "best_staleness": advice.best.staleness,
        "plain": {
            "alone_s": advice.alone_s,
            "divided_s": advice.divided_s,
            "divided_by": list(advice.divided_by),
            "is_as_good": advice.is_plain_as_good,
        },
        "words": advice.words(),
    }


def _tables(advice: Advice) -> list[RenderableType]:
    needs = TableData("What devices need", _NEEDS, tuple(map(_need_row, advice.needs)))
    serves = TableData("What staleness serves", _SERVES, tuple(map(_serve_row, advice.services)))
    title = f"Most of one device, shared out by speed alone, staleness {advice.best.staleness}"
    shares = TableData(title, _SHARES, tuple(map(_share_row, advice.shares)))
    return [draw_table(needs), draw_table(serves), draw_table(shares)]


def _need_row(need: DeviceNeed) -> tuple[str, ...]:
    return (
        need.device,
        f"{need.macs_per_s / 1e6:.0f}",
        f"{need.bits_per_s / 1e6:.4g}",
        format_seconds(need.message_s),
        format_seconds(need.block_s),
        _least(need.by_figure),
        _least(need.hiding),
    )


def _least(staleness: int | None) -> str:
    return "none" if staleness is None else f">= {staleness}"


def _serve_row(service: Service) -> tuple[str, ...]:
    return (
        f"{service.staleness}",
        f"{service.least_bits_per_s / 1e6:.4g}",
        f"{service.most_macs_per_s / 1e6:.4g}",
        f"{100 * service.byte_share:.1f} %",
        format_seconds(service.latency_s),
        ", ".join(service.devices),
    )


def _share_row(share: Share) -> tuple[str, ...]:
    return (
        f"{len(share.devices)}",
        f"{share.macs / 1e6:.1f}",
        format_bytes(share.weight_bytes),
        format_bytes(share.memory_bytes),
        format_seconds(share.latency_s),
        ", ".join(share.devices),
    )
