"""Figure 17 in real time: what planners promised for a fleet beside what emulated boards did.

This machine stands in for the paper's Raspberry Pi 3s. Each board's process computes for real and
then waits until the catalogue's Pi would be done; links and ports are slowed as much. Networks are
the paper's, VGG-16 on images of half the height and width. No board holds the whole network, as in
the paper, so that layers must be shared out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import mean

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.errors import PlanError
from partita.fabric import Endpoint
from partita.graph import Graph, load_graph
from partita.lab import start_lab
from partita.leader import refine_cost
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, Profile, measure_profile
from partita.reproduce.bench import Advance, Bench
from partita.reproduce.collaborative.pipelines import BOARDS, IN_FLIGHT, SAID, workers_of
from partita.reproduce.collaborative.setting import KINDS, PAPER, make_fleet
from partita.reproduce.emulation import Rate, as_measured, emulate, measure_rate
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.simulation import answer_period_s
from partita.zoo import build_model

#: A planner and its seed.
Method = tuple[str, int]
PLANNERS = ("collaborative", "random", "cut", "best")
#: Random assignments whose mean counts.
SEEDS = 3
#: Height and width of the images.
SIZES = {"alexnet": 224, "vgg16": 112}
#: Memory of a board over that of the whole network: the largest layer fits, two thirds do not.
ROOM = 0.7
#: Boards are slowed until all of them at work need so many of this machine's cores: few, so that
#: what else the machine does finds room.
CORES = 0.4
#: Least seconds for which answers are counted, and most that ``best`` may search. Not tuned.
COUNTED_S, _SEARCH_S = 4.0, 5.0
_NOTE = (
    f"boards of kind {KINDS[0]}, emulated by processes of this machine, slowed as far as its"
    f" cores need, links and ports as much; VGG-16 on images of {SIZES['vgg16']} x"
    f" {SIZES['vgg16']}; planners are told that a board holds {ROOM:.0%} of what the whole network"
    f" takes; random: the mean over {SEEDS} seeds; answers are counted while the pipeline is full,"
    " and compared with the whole model's"
)


@dataclass(frozen=True)
class Served:
    """One plan on one fleet.

    Attributes:
        predicted: Answers per second.
        simulated: The same with computing steps as they were measured.
        measured: The same as they came, and how true the answers were.
    """

    planner: str
    stages: int
    predicted: float
    simulated: float
    measured: Rate


def small_graph(model: str) -> Graph:
    """A network of the paper, on small images where it is large."""
    return load_graph(build_model(model, size=SIZES[model]), name=model)


def profile_here(graph: Graph) -> Profile:
    """This machine's profile of a network, with more repeats than a quick look takes."""
    return measure_profile(graph, MeasureOptions(repeats=9, budget_s=0.3))


@contextmanager
def open_fleet(
    graph: Graph, profile: Profile, boards: int, *, room: float = ROOM
) -> Iterator[tuple[Endpoint, CostModel, PlanOptions]]:
    """So many emulated boards: a leader's endpoint, costs as measured on them, what is wanted.

    Args:
        profile: Of this machine.
        room: What planners are told that a board holds, over what the whole network takes.

    Raises:
        RunError: The lab does not start.
    """
    roomy, _ = emulate(make_fleet(KINDS[0], boards, swaps=False), graph, profile, cores=CORES)
    workers = workers_of(roomy)
    one = CostModel(graph, roomy, profiles=profile)
    whole = find_plan(one, planner="single", options=PlanOptions(devices=workers[:1]))
    most = int(room * whole.estimate.memory_bytes[workers[0]])
    options = PlanOptions(
        "throughput", _SEARCH_S, in_flight=min(boards, IN_FLIGHT), devices=workers
    )
    with start_lab(roomy) as lab:
        refined = refine_cost(lab.endpoint, one, one.layout(whole.plan).program)
        told = _with_memory(roomy, most)
        cost = CostModel(graph, told, profiles=profile, options=refined.options)
        yield lab.endpoint, cost, options


def serve(
    graph: Graph,
    profile: Profile,
    boards: int,
    methods: Sequence[Method],
    tell: Advance,
    *,
    room: float = ROOM,
) -> Iterator[Served]:
    """Yield what each method's plan answers on so many emulated boards.

    A method that finds no plan is left out.

    Args:
        profile: Of this machine.
        methods: Planners and seeds.
        tell: Called with what is done next, and with what went wrong.
        room: As for :func:`open_fleet`.

    Raises:
        RunError: The lab does not start, or a run failed.
    """
    rates: dict[str, Rate] = {}
    with open_fleet(graph, profile, boards, room=room) as (endpoint, cost, options):
        for planner, seed in methods:
            tell(f"{graph.name} on {boards}: {planner}")
            try:
                found = find_plan(cost, planner=planner, options=replace(options, seed=seed))
            except PlanError as error:
                tell(f"{graph.name} on {boards}: {planner}: {error}")
                continue
            plan = found.plan
            key = repr(plan.stages)  # methods may agree
            if key not in rates:
                rates[key] = measure_rate(endpoint, cost, plan, least_s=COUNTED_S)
            layout = cost.layout(plan)
            period_s = answer_period_s(layout.program, as_measured(cost, layout, rates[key]))
            predicted = found.estimate.images_per_second
            yield Served(planner, len(plan.stages), predicted, 1 / period_s, rates[key])


def _with_memory(cluster: Cluster, memory_bytes: int) -> Cluster:
    devices = (replace(device, memory_bytes=memory_bytes) for device in cluster.devices)
    return replace(cluster, devices=tuple(devices))


@figure(PAPER, 17, "AlexNet and VGG-16 on many boards, run", real=True)
def run_fleets(bench: Bench) -> Drawn:
    """Every planner's plan on every fleet of the figure, run."""
    methods = [
        (name, seed) for name in PLANNERS for seed in range(SEEDS if name == "random" else 1)
    ]
    found: dict[tuple[str, int], list[Served]] = {}
    for model, counts in BOARDS.items():
        bench.advance(f"{model}: measuring this machine")
        graph = small_graph(model)
        profile = profile_here(graph)
        for boards in counts:
            served = serve(graph, profile, boards, methods, bench.advance)
            found[model, boards] = list(served)
    return draw_runs(found)


def draw_runs(found: Mapping[tuple[str, int], Sequence[Served]]) -> Drawn:
    """Predicted beside measured, and the claims held against what was measured."""
    rows: list[tuple[Cell, ...]] = []
    claims = []
    for (model, boards), fleet in found.items():
        for served in fleet:
            run = served.measured
            ratio = served.predicted / run.per_second
            rows.append(
                (
                    *(model, served.planner, boards, served.stages, served.predicted),
                    *(run.per_second, ratio, 1e6 * run.difference),
                )
            )
        rates = mean_rates(fleet)
        if {"collaborative", "random"} <= set(rates):
            words, least = SAID[model]
            gain = rates["collaborative"][1] / rates["random"][1]
            said = f"{gain:.3g}x over random assignment that divides what no board holds"
            claims.append(
                Claim(
                    f"{model}, {boards} emulated boards", words, said, gain >= least, "measurement"
                )
            )
    columns = (
        *("model", "planner", "boards", "stages", "predicted/s", "measured/s"),
        *("predicted/measured", "difference, ppm"),
    )
    table = Table("Figure 17, run on emulated boards", columns, tuple(rows), text_columns=2)
    return Drawn((table,), tuple(claims), (_chart(found),), (_NOTE,))


def mean_rates(fleet: Sequence[Served]) -> dict[str, tuple[float, float]]:
    """Predicted and measured answers per second of each planner, the mean over its seeds."""
    rates: dict[str, list[tuple[float, float]]] = {}
    for served in fleet:
        pair = served.predicted, served.measured.per_second
        rates.setdefault(served.planner, []).append(pair)
    return {
        planner: (mean(a for a, _ in pairs), mean(b for _, b in pairs))
        for planner, pairs in rates.items()
    }


def _chart(found: Mapping[tuple[str, int], Sequence[Served]]) -> Chart:
    series: dict[str, tuple[float | None, ...]] = {}
    rates = [mean_rates(fleet) for fleet in found.values()]
    for planner in dict.fromkeys(name for fleet in rates for name in fleet):
        for column, what in enumerate(("predicted", "measured")):
            values = (fleet[planner][column] if planner in fleet else None for fleet in rates)
            series[f"{planner}, {what}"] = tuple(values)
    return Chart(
        "Figure 17 on emulated boards: predicted and measured",
        "bars",
        tuple(f"{model} on {boards}" for model, boards in found),
        series,
        "model and boards",
        "answers per second",
    )
