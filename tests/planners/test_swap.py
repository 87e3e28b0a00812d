"""Plans that may hold more than the devices' memory, at what bringing in the rest costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from statistics import mean

import msgspec
import pytest

from partita.cluster import Cluster, Device
from partita.compile import build_layout
from partita.cost import CostModel
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph, load_graph
from partita.planners import DraftStage, Evaluator, Objective, PlanOptions, find_plan
from partita.planners.options import options_of
from partita.simulation import simulate
from partita.zoo import build_model
from tests.planners.fakes import dense, make_graph, make_wide

_RATE = 1e6


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A network whose weights are most of its memory."""
    return load_graph(build_model("squeezenet", size=64))


def _cluster(graph: Graph, share: float, swap: float | None, count: int = 1) -> Cluster:
    """Devices with a share of the memory that the network takes on one."""
    names = [f"d{number}" for number in range(count)]
    roomy = Cluster.of([Device(name, kind="raspberry-pi-3") for name in names])
    cost = CostModel(graph, roomy)
    plan = find_plan(cost, planner="single").plan
    (use,) = cost.memory(cost.layout(plan)).values()
    devices = [
        replace(device, memory_bytes=int(use.total * share), swap_bytes_per_s=swap)
        for device in roomy.devices
    ]
    return Cluster.of(devices)


def test_an_overfull_device_pays_for_what_does_not_fit(graph: Graph) -> None:
    """A request takes the bytes beyond memory over the swap's rate longer, whatever is asked."""
    roomy = find_plan(CostModel(graph, _cluster(graph, 1.0, _RATE)), planner="single")
    tight = CostModel(graph, _cluster(graph, 0.5, _RATE))
    swapped = find_plan(tight, planner="single", options=PlanOptions(swap=True))
    (use,) = tight.memory(tight.layout(swapped.plan)).values()
    over_s = (use.total - tight.cluster.device("d0").memory_bytes) / _RATE
    assert over_s > 1
    assert swapped.latency_s == pytest.approx(roomy.latency_s + over_s)
    assert swapped.estimate.bottleneck_s == pytest.approx(roomy.bottleneck_s + over_s)
    layout = build_layout(graph, swapped.plan, tight.cluster)
    report = simulate(layout.program, tight.price(layout))
    assert report.latencies_s[0] == pytest.approx(swapped.latency_s)


def test_every_fragment_pays_for_its_share(graph: Graph) -> None:
    """Two stages on one device together bring in what does not fit, each by its weights."""
    cost = CostModel(graph, _cluster(graph, 0.5, _RATE))
    whole = find_plan(cost, planner="single", options=PlanOptions(swap=True)).plan
    (stage,) = whole.stages
    half = len(stage.layers) // 2
    parts = (stage.layers[:half], stage.layers[half:])
    stages = tuple(
        msgspec.structs.replace(stage, name=f"part{number}", layers=layers)
        for number, layers in enumerate(parts)
    )
    plan = msgspec.structs.replace(whole, stages=stages)
    layout = cost.layout(plan)
    free = CostModel(graph, _cluster(graph, 0.5, None))
    paid, alone = (one.price(free.layout(plan)).compute_s for one in (cost, free))
    (use,) = cost.memory(layout).values()
    over_s = (use.total - cost.cluster.device("d0").memory_bytes) / _RATE
    beyond = {step: paid[step] - alone[step] for step in paid}
    assert sum(beyond.values()) == pytest.approx(over_s)
    weights = [work.weight_bytes for work in layout.works]
    assert sorted(beyond.values()) == pytest.approx(
        [over_s * one / sum(weights) for one in sorted(weights)]
    )


def test_memory_stays_hard_unless_asked(graph: Graph) -> None:
    """Without the option, or on a device that cannot swap, an overfull device is refused."""
    with pytest.raises(InfeasibleError, match="fit"):
        find_plan(CostModel(graph, _cluster(graph, 0.5, _RATE)), planner="single")
    with pytest.raises(PlanError, match=r'Devices may swap, but none can: .*swap = "10'):
        find_plan(CostModel(graph, _cluster(graph, 0.5, None)), options=PlanOptions(swap=True))


def test_best_divides_rather_than_swaps(graph: Graph) -> None:
    """Where two devices together have the memory, slow swap is not used; the plan keeps asking."""
    cost = CostModel(graph, _cluster(graph, 0.8, _RATE, count=2))
    options = PlanOptions(swap=True, max_evaluations=200)
    result = find_plan(cost, options=options)
    for name, use in cost.memory(cost.layout(result.plan)).items():
        assert use.total <= cost.cluster.device(name).memory_bytes
    assert options_of(result.plan).swap


@pytest.mark.parametrize("planner", ["cut", "collaborative", "best"])
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_more_boards_rather_than_swap(graph: Graph, planner: str, objective: Objective) -> None:
    """Four boards that together have the memory: none of them swaps, and chance does no better."""
    cost = CostModel(graph, _cluster(graph, 0.8, _RATE, count=4))
    options = PlanOptions(objective, in_flight=4, swap=True, max_evaluations=200)
    result = find_plan(cost, planner=planner, options=options)
    chance = [
        find_plan(cost, planner="random", options=replace(options, seed=seed)) for seed in range(3)
    ]
    for name, used in result.estimate.memory_bytes.items():
        assert used <= cost.cluster.device(name).memory_bytes
    evaluator = Evaluator(cost, options)
    rates = [evaluator.rate(one.estimate)[0] for one in chance]
    assert evaluator.rate(result.estimate)[0] <= mean(rates)


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_cuts_that_swap_are_the_best_cuts(objective: Objective) -> None:
    """Where all cuts swap, devices used again among them, none is better than what is found."""
    graph = make_wide(64, 64, 96, 128, size=8)
    cost = CostModel(graph, _cluster(graph, 0.3, 1e7, count=2))
    options = PlanOptions(objective, in_flight=2, swap=True)
    found = find_plan(cost, planner="cut", options=options)
    evaluator = Evaluator(cost, options)
    count = len(evaluator.outline)
    scores = [
        evaluator.judge(
            tuple(DraftStage(p, p + 1, "none", (device,)) for p, device in enumerate(devices))
        )[0]
        for devices in product(evaluator.devices, repeat=count)
    ]
    assert sum(found.estimate.memory_bytes.values()) > 2 * cost.cluster.device("d0").memory_bytes
    assert evaluator.rate(found.estimate)[0] <= min(scores) * (1 + 1e-9)


@pytest.mark.parametrize("swap", [True, False])
@pytest.mark.parametrize("planner", ["cut", "collaborative"])
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_layer_that_fits_nowhere_is_divided(
    planner: str, objective: Objective, swap: bool
) -> None:
    """Rather than be brought in for every request: no board holds more than it has.

    Where boards cannot swap, too; and chance, which divides it, does no better.
    """
    boards = [
        Device(
            f"d{number}",
            kind="raspberry-pi-3",
            memory_bytes=11_000_000,
            swap_bytes_per_s=_RATE if swap else None,
        )
        for number in range(4)
    ]
    widths = (256, 1024, 2048, 512)
    parts = [
        part
        for number, shape in enumerate(pairwise(widths))
        for part in dense(f"d{number}", f"t{number}", f"t{number + 1}", shape)
    ]
    cost = CostModel(make_graph(parts, {"t0": (1, 256)}, ["t3"]), Cluster.of(boards))
    options = PlanOptions(objective, in_flight=4, swap=swap)
    result = find_plan(cost, planner=planner, options=options)
    largest = result.plan.stages[[s.axis for s in result.plan.stages].index("output_channels")]
    assert largest.layers == ("d1",)
    assert max(result.estimate.memory_bytes.values()) <= 11_000_000
    evaluator = Evaluator(cost, options)
    chance = [
        find_plan(cost, planner="random", options=replace(options, seed=seed)).estimate
        for seed in range(3)
    ]
    rates = [evaluator.rate(estimate)[0] for estimate in chance]
    assert evaluator.rate(result.estimate)[0] <= mean(rates)
