"""Section 6 on ResNet-50 and Xception: whole models on several boards, in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.reproduce.collaborative.setting import KINDS, make_fleet
from partita.reproduce.figure import Cell, Chart, Claim, Table
from partita.simulation import predict_period_s

#: The paper's fleets end with eleven boards.
COUNTS = tuple(range(2, 12))
#: Requests in flight per board: one computes, one is on its way, and one is being answered.
PER_BOARD = 3
#: At least so much of linear counts as linear. Not tuned.
LINEAR = 0.95
REPLICA_NOTE = (
    f"whole models: {PER_BOARD} requests in flight per board, equal shares; linear is as many times"
    " what one board answers; all inputs leave by the sender's one port; whether boards hold the"
    " model is not looked at, nothing swaps"
)


@dataclass(frozen=True)
class Scaled:
    """What so many boards answer.

    Attributes:
        per_second: Answers per second.
        part: Of what as many boards would answer if each did as much as one alone.
        bound: The device, link or port that is busy longest, and the answers per second that it
            allows.
    """

    per_second: float
    part: float
    bound: tuple[str, float]


def replicate(graph: Graph, cluster: Cluster, devices: Sequence[str]) -> Plan:
    """The whole network on each of the devices, which take requests in turns."""
    shards = tuple(map(Shard, devices))
    names = tuple(layer.name for layer in graph.layers)
    stage = Stage("whole", names, "none", shards)
    if len(shards) > 1:
        stage = Stage("whole", names, "replica", shards, shares=(1,) * len(shards))
    return Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        (stage,),
        in_flight=PER_BOARD * len(shards),
        planner="by hand",
    )


def scale(graph: Graph, kind: str, counts: Sequence[int] = COUNTS) -> dict[int, Scaled]:
    """What so many boards of a kind answer per second, by simulation through ports."""
    cluster = make_fleet(kind, max(counts), swaps=False)
    cost, workers = CostModel(graph, cluster), cluster.names[1:]
    alone_s = predict_period_s(cost, replicate(graph, cluster, workers[:1]))
    found = {}
    for count in counts:
        plan = replicate(graph, cluster, workers[:count])
        period_s = predict_period_s(cost, plan)
        lanes = cost.lanes_s(cost.layout(plan))
        longest = max(lanes, key=lanes.__getitem__)
        found[count] = Scaled(
            1 / period_s, alone_s / (count * period_s), (longest, 1 / lanes[longest])
        )
    return found


def replica_table(model: str, found: Mapping[str, Mapping[int, Scaled]]) -> Table:
    """Answers per second and the part of linear, by kind of board."""
    rows: list[tuple[Cell, ...]] = [
        (kind, scaled.bound[0], count, scaled.per_second, scaled.part, scaled.bound[1])
        for kind, by_count in found.items()
        for count, scaled in by_count.items()
    ]
    columns = ("device", "busy longest", "boards", "answers/s", "of linear", "it allows")
    return Table(f"{model}: whole on several boards", columns, tuple(rows), text_columns=2)


def claim_linear(kind: str, model: str, found: Mapping[int, Scaled]) -> Claim:
    """As many times the answers as there are boards."""
    below = [count for count, scaled in found.items() if scaled.part < LINEAR]
    words = f"{found[max(found)].part:.1%} of linear on {max(found)} boards"
    if below:
        lane, most = found[below[0]].bound
        words += f", below {LINEAR:.0%} from {below[0]} on, where {lane} allows {most:.3g}/s"
    return Claim(
        f"{kind}, {model}",
        "data-level parallelism will provide a linear speedup as the number of nodes",
        words,
        not below,
    )


def replica_chart(found: Mapping[str, Mapping[str, Mapping[int, Scaled]]]) -> Chart:
    """The speedup over one board, by model and kind."""
    series: dict[str, tuple[float | None, ...]] = {
        f"{model}, {kind}": tuple(scaled.part * count for count, scaled in by_count.items())
        for model, by_kind in found.items()
        for kind, by_count in by_kind.items()
    }
    series["linear"] = tuple(map(float, COUNTS))
    return Chart(
        "Whole models in turns: answers per second over one board",
        "lines",
        tuple(map(float, COUNTS)),
        series,
        "boards",
        "speedup",
    )


def scale_all(graph: Graph) -> dict[str, dict[int, Scaled]]:
    """What boards of each kind answer."""
    return {kind: scale(graph, kind) for kind in KINDS}
