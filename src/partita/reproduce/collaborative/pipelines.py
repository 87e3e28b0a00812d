"""Figure 17 and the sentences on data parallelism: whole models served by many boards.

Speedups are of answers per second with one request in flight per board, against random assignment
(the paper's baseline), or against one board.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import mean

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, Result, find_plan, get_planner
from partita.reproduce.bench import Bench
from partita.reproduce.collaborative.setting import ENDS, KINDS, PAPER, make_fleet
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: Boards of Figure 17, by model.
BOARDS = {"alexnet": (4, 6), "vgg16": (8, 11)}
#: Random assignments whose mean counts.
SEEDS = 20
#: Most requests in flight.
IN_FLIGHT = 8
#: Speedups of Figure 17 as the text has them: about 2 with AlexNet, up to 6 with VGG-16.
SAID = {"alexnet": ("around 2x speedups", 2.0), "vgg16": ("up to 6x speedup", 6.0)}
#: Bars end here; the table has all numbers.
_HIGHEST_BAR = 20.0


@dataclass(frozen=True)
class Served:
    """Answers per second of one model on one fleet.

    Attributes:
        ours: Of ``collaborative``.
        most: Of no plan more.
        whole: Mean of random assignments that leave every layer whole, and swap.
        divided: The same with layers divided that no board holds.
        groups: What was found, in words.
    """

    ours: float
    most: float
    whole: float
    divided: float
    groups: str


def serve(graph: Graph, kind: str, boards: int, seeds: int = SEEDS) -> Served:
    """One model on so many boards of a kind."""
    cost = CostModel(graph, make_fleet(kind, boards))
    options = PlanOptions(
        objective="throughput",
        in_flight=min(boards, IN_FLIGHT),
        devices=workers_of(cost.cluster),
        swap=True,
    )
    ours = find_plan(cost, planner="collaborative", options=options)
    whole, divided = (
        mean(
            _draw(cost, replace(options, seed=seed, method={"random.split": split}))
            for seed in range(seeds)
        )
        for split in ("no", "yes")
    )
    most = 1 / ours.least_period_s if ours.least_period_s else float("inf")
    return Served(ours.estimate.images_per_second, most, whole, divided, _describe(ours))


def _draw(cost: CostModel, options: PlanOptions) -> float:
    """Answers per second of one random assignment; bounds, which take long, are not asked for."""
    evaluator = Evaluator(cost, options)
    draft = get_planner("random").choose(evaluator).draft
    return evaluator.estimate(draft).images_per_second


def workers_of(cluster: Cluster) -> tuple[str, ...]:
    """The boards that compute."""
    return tuple(name for name in cluster.names if name != ENDS)


def _describe(result: Result) -> str:
    words = []
    for stage in result.plan.stages:
        count = len({shard.device for shard in stage.shards})
        how = {"none": "whole", "replica": "replicated"}.get(stage.axis, f"by {stage.axis}")
        words.append(f"{len(stage.layers)} {how} on {count}")
    return "; ".join(words)


@figure(PAPER, 17, "AlexNet and VGG-16 on many boards")
def make_pipelines(bench: Bench) -> Drawn:
    """Answers per second against random assignment."""
    found = {}
    for model, counts in BOARDS.items():
        for kind in KINDS:
            for boards in counts:
                bench.advance(f"{model}, {boards} x {kind}")
                found[model, kind, boards] = serve(bench.graph(model), kind, boards)
    return draw_pipelines(found)


def draw_pipelines(found: Mapping[tuple[str, str, int], Served]) -> Drawn:
    """Tables, claims and a chart."""
    rows: list[tuple[Cell, ...]] = []
    claims = []
    for (model, kind, boards), served in found.items():
        speedups = served.ours / served.whole, served.ours / served.divided
        part = served.ours / served.most
        rows.append((model, kind, served.groups, boards, served.ours, part, *speedups))
        words, least = SAID[model]
        claims.append(
            Claim(
                f"{model}, {boards} x {kind}",
                words,
                f"{speedups[0]:.3g}x over assignments that leave all layers whole,"
                f" {speedups[1]:.3g}x where the first dense layer is divided",
                min(speedups) >= least,
            )
        )
    columns = (
        *("model", "device", "groups of layers", "boards", "answers/s", "of the bound"),
        *("over random", "over random, divided"),
    )
    cases = dict.fromkeys((model, boards) for model, _, boards in found)
    series: dict[str, tuple[float, ...]] = {}
    for kind in dict.fromkeys(kind for _, kind, _ in found):
        here = [found[model, kind, boards] for model, boards in cases]
        for name, gains in (
            ("layers whole", [one.ours / one.whole for one in here]),
            ("divided where needed", [one.ours / one.divided for one in here]),
        ):
            series[f"{kind}, {name}"] = tuple(min(gain, _HIGHEST_BAR) for gain in gains)
    chart = Chart(
        "Figure 17: answers per second over random assignment",
        "bars",
        tuple(f"{model} on {boards}" for model, boards in cases),
        series,
        "model and boards",
        f"speedup, bars end at {_HIGHEST_BAR:g}",
    )
    notes = (
        f"random assignment: the mean over {SEEDS} seeds; a board that cannot hold its layers pays"
        " for its swap",
        f"one request in flight per board, at most {IN_FLIGHT}: more need more memory than the"
        " paper's boards have; their ports are counted",
        "a claim holds where it does over both kinds of assignment: one that swaps for minutes is a"
        " weak rival; the bars are not in the paper's text: its sentences are compared",
    )
    table = Table("Figure 17: many boards", columns, tuple(rows), text_columns=3)
    return Drawn((table,), tuple(claims), (chart,), notes)
