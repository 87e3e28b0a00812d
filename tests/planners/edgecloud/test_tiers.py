"""Device, gateway and cloud: cuts, widths and rows in one search."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device, Link
from partita.compile import check_plan, compile_plan, planned_graph
from partita.errors import InfeasibleError, PlanError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.plan import Plan
from partita.planners import Evaluator, PlanOptions, Result, find_plan
from partita.planners.edgecloud.least_latency import SoonestSplit
from partita.planners.edgecloud.quantised_split import EdgeBits, make_problem, tiered_draft
from partita.planners.edgecloud.roles import find_roles
from partita.planners.edgecloud.split_problem import Split, SplitProblem
from partita.planners.edgecloud.tier_problem import find_gateways, tier_problems
from partita.planners.pricing import evaluator as evaluator_module
from partita.planners.pricing.budget import Budget
from partita.regions import Region
from tests.laws.test_exactness import RANDOM
from tests.planners.edgecloud.cases import draw_problem, quantised_chain
from tests.planners.fakes import FakeCost

NAMES = ("camera", "gateway", "cloud")


@dataclass(frozen=True)
class TierCost(FakeCost):
    """Camera and gateway compute layers with quantised weights four times as fast."""

    def _layer_s(
        self, device: str, layer: str, boxes: Mapping[str, Region], *, is_merge: bool = False
    ) -> float:
        seconds = super()._layer_s(device, layer, boxes, is_merge=is_merge)
        entry = self.graph.bits.get(layer)
        return seconds / 4 if device != "cloud" and entry is not None and entry.weight else seconds


def _cost(
    rates: tuple[float, ...] = (2e7, 8e7, 8e8),
    *,
    near: float = 6e6,
    up: float = 4e5,
    delay_s: float = 1e-3,
    camera_bytes: int = 10**9,
) -> TierCost:
    """Return a camera and a gateway that are near each other, and a cloud beyond a thin uplink."""
    links = [
        Link(*ends, near if "cloud" not in ends else up, delay_s)
        for ends in product(NAMES, NAMES)
        if ends[0] != ends[1]
    ]
    devices = [Device("camera", memory_bytes=camera_bytes), *map(Device, NAMES[1:])]
    graph, _ = quantised_chain(8, 8, 16, 8, 4)
    cluster = Cluster.of(devices, links=links)
    return TierCost(graph, cluster, dict(zip(NAMES, rates, strict=True)))


def _plan(
    cost: FakeCost, planner: str = "tiers", *, most_error: float | None = 1e-3, **more: object
) -> Result:
    method = {} if most_error is None else {"autosplit.most_error": str(most_error)}
    _, data = quantised_chain(8, 8, 16, 8, 4)
    options = PlanOptions(
        quantisation=data,
        **{"max_evaluations": 150, "method": method, **more},  # type: ignore[arg-type]
    )
    return find_plan(cost, planner=planner, options=options)


def _devices(plan: Plan) -> list[str]:
    return [shard.device for stage in plan.stages for shard in stage.shards]


def _tiered(problem: SplitProblem, rng: Random) -> list[SplitProblem]:
    """Return a drawn problem with a faster device in the middle, one for each of its beginnings."""
    layers, faster = len(problem.network.layers), rng.uniform(1, 5)
    rooms = [rng.choice((inf, problem.edge_memory_bits, 3000.0)) for _ in range(2)]
    return [
        replace(
            problem,
            first=first,
            first_memory_bits=rooms[0],
            edge_memory_bits=rooms[1],
            edge_s=np.concatenate([problem.edge_s[:first], problem.edge_s[first:] / faster]),
        )
        for first in range(layers)
    ]


def _fits(problem: SplitProblem, split: Split, most_error: float) -> bool:
    """Whether what each device holds, counted tensor by tensor, and the errors are allowed."""
    network = problem.network

    def held_bits(start: int, stop: int) -> int:
        working = [0]
        for layer in range(start, stop):
            makers = [network.makers[t] for t in network.working[layer]]
            widths = [split.activation_bits[m] if m >= 0 else network.input_bits for m in makers]
            sizes = [network.sizes[t] for t in network.working[layer]]
            working.append(sum(n * width for n, width in zip(sizes, widths, strict=True)))
        weights = sum(network.weights[n] * split.weight_bits[n] for n in range(start, stop))
        return weights + max(working)

    first = problem.first
    return (
        held_bits(0, first) <= problem.first_memory_bits
        and held_bits(first, split.cut) <= problem.edge_memory_bits
        and problem.error(split) <= most_error * (1 + 1e-9)
    )


@settings(max_examples=20)
@given(RANDOM)
def test_the_soonest_split_in_three_is_within_a_percent_of_the_optimum(rng: Random) -> None:
    """Over both cuts and all widths, each device's memory apart, against trying everything."""
    base, most_error = draw_problem(rng, rng.randint(1, 3), (2, 8))
    problems = _tiered(base, rng)
    least_s = inf
    for problem in problems:
        for cut in range(problem.first + 1, len(base.network.layers) + 1):
            options = list(product(base.widths, repeat=cut))
            splits = (Split(cut, w, a, problem.first) for w, a in product(options, options))
            fits = (one for one in splits if _fits(problem, one, most_error))
            least_s = min(least_s, min(map(problem.latency_s, fits), default=inf))
    found = SoonestSplit(problems).find(most_error)
    if found is None:
        assert least_s == inf
        return
    assert _fits(problems[found.split.first], found.split, most_error)
    assert least_s * (1 - 1e-9) <= found.latency_s <= least_s * 1.01


@pytest.mark.parametrize("up", [1e5, 1e7])
def test_sums_of_three_ranges_are_their_latencies(up: float) -> None:
    """Ranges one after the other: the sum is what the simulation says, for every pair of cuts."""
    cost = _cost(up=up)
    _, data = quantised_chain(8, 8, 16, 8, 4)
    evaluator = Evaluator(cost, PlanOptions(quantisation=data))
    roles = find_roles(evaluator)
    bits = EdgeBits(cost.graph, data, 32, has_floats=True)
    straight = replace(make_problem(evaluator, roles, bits))
    straight = replace(straight, network=replace(straight.network, input_bits=32))
    order = evaluator.outline.order
    assert find_gateways(evaluator, roles) == ["gateway"]
    for problem in tier_problems(evaluator, roles, "gateway", bits, straight):
        for cut in range(problem.first + 1, len(order) + 1):
            parts = [("camera", order[: problem.first]), ("gateway", order[:cut]), ("cloud", order)]
            _, draft = tiered_draft(evaluator, parts, {})
            split = replace(Split.uniform(cut, 32), first=problem.first)
            assert problem.latency_s(split) == pytest.approx(evaluator.latency_of(draft), rel=1e-9)


@settings(max_examples=6)
@given(RANDOM)
def test_it_is_never_slower_than_two_parts_nor_than_exact_plans(rng: Random) -> None:
    """Whatever devices and links there are and accuracy allows; errors keep to the bound."""
    rates = [rng.uniform(1, 20) * 1e7 for _ in NAMES]
    cost = _cost(
        (rates[0], rates[1], rng.choice((5, 1)) * rates[2]),
        near=10 ** rng.uniform(5, 8),
        up=10 ** rng.uniform(5, 8),
        delay_s=rng.choice((0.0, 1e-4, 1e-3)),
        camera_bytes=rng.choice((22_000, 40_000, 10**9)),
    )
    most_error = rng.choice((0.0, 1e-4, 1e-3, 1e9))
    result = _plan(cost, most_error=most_error)
    for planner in ("autosplit", "best"):
        assert result.latency_s <= _plan(cost, planner, most_error=most_error).latency_s
    assert all(one.error <= most_error for one in result.trade_offs)
    check_plan(cost.graph, result.plan, cost.cluster)


def test_a_gateway_gains_over_two_parts() -> None:
    """A fast near device before a thin uplink is worth more than a fifth; camera memory is kept."""
    cost = _cost(near=1e6, camera_bytes=22_000)
    two, three = (_plan(cost, planner) for planner in ("autosplit", "tiers"))
    assert two.latency_s > 1.2 * three.latency_s
    assert "gateway" in _devices(three.plan)
    assert three.plan.bits
    assert three.estimate.memory_bytes.get("camera", 0) <= 22_000


def test_rows_among_camera_and_gateway_in_bits_are_exact() -> None:
    """Two equal devices divide rows of quantised layers; what is put together is the whole's."""
    cost = _cost((2e7, 2e7, 3e7), near=1e8, up=2e4, delay_s=1e-5)
    result = _plan(cost)
    rows = [stage for stage in result.plan.stages if stage.axis in ("rows", "tiles")]
    assert {shard.device for stage in rows for shard in stage.shards} == {"camera", "gateway"}
    assert any(result.plan.bits.get(layer) for stage in rows for layer in stage.layers)
    quantised = planned_graph(cost.graph, result.plan)
    compiled = compile_plan(cost.graph, result.plan, cost.cluster)
    sent = {s.wire for s in compiled.program.streams if s.source in ("camera", "gateway")}
    assert any(wire.startswith("codes") for wire in sent)
    pieces = check_exactness(quantised, compiled, draw_inputs(cost.graph.input_specs, 1, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(quantised)


@pytest.mark.parametrize("planner", ["autosplit", "tiers"])
@pytest.mark.parametrize("budget_s", [0.0, 0.05, 0.2])
def test_something_is_planned_in_a_small_budget(
    planner: str, budget_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little time there is: what is known then, and that it was cut short.

    A look at the clock takes a hundredth of a second; what is looked at no more takes no time.
    """
    looks = itertools.count()

    def make(options: PlanOptions) -> Budget:
        return Budget(options, lambda: 1e-2 * next(looks))

    monkeypatch.setattr(evaluator_module, "Budget", make)
    cost = _cost(near=1e6)
    result = _plan(cost, planner, budget_s=budget_s, max_evaluations=None)
    check_plan(cost.graph, result.plan, cost.cluster)
    assert result.status == "cut short"
    assert "no widths were tried" in result.note
    exact = _plan(cost, "neurosurgeon", most_error=None, max_evaluations=None)
    assert result.latency_s <= exact.latency_s


def test_a_judge_decides() -> None:
    """Nothing that it refuses is planned; what it was asked of is told, ever less error."""

    def judge(plan: Plan) -> float:
        widths = [w for one in plan.bits.values() for w in (one.weight, one.activation) if w]
        return 0.5 if min(widths, default=32) < 8 else 0.8

    cost = _cost(near=1e6)
    result = _plan(cost, most_error=None, judge=judge, accuracy_drop=0.1)
    assert result.plan.bits
    assert judge(result.plan) == 0.8
    errors = [one.error for one in result.trade_offs]
    assert errors == sorted(errors, reverse=True)
    refused = _plan(cost, most_error=None, judge=lambda plan: 0.0 if plan.bits else 1.0)
    assert not refused.plan.bits
    judged = [one.accuracy for one in refused.trade_offs if one.bits]
    assert {one.value for one in judged if one is not None} == {0.0}


def test_without_samples_it_is_best_and_a_gateway_can_be_named() -> None:
    """Nothing is quantised; a gateway that is not there, or may not be one, is one clear line."""
    cost = _cost()
    options = PlanOptions(max_evaluations=100)
    ours, best = (find_plan(cost, planner=name, options=options) for name in ("tiers", "best"))
    assert ours.plan.stages == best.plan.stages
    method = {"autosplit.most_error": "1e-3", "tiers.gateway": "moon"}
    with pytest.raises(PlanError, match="'moon'"):
        _plan(cost, method=method)
    with pytest.raises(PlanError, match="what accuracy is enough"):
        _plan(cost, most_error=None)


def test_a_cloud_that_the_camera_cannot_reach_has_no_gateways() -> None:
    """It is named all the same: the camera and what is near it go on without it."""
    cost = _cost()
    links = [link for link in cost.cluster.links if {*link.pair} != {"camera", "cloud"}]
    apart = cost.on(Cluster.of(cost.cluster.devices, links=links))
    method = {"autosplit.most_error": "1e-3", "autosplit.cloud": "cloud"}
    assert set(_devices(_plan(apart, method=method).plan)) <= {"camera", "gateway"}


@pytest.mark.parametrize("planner", ["autosplit", "tiers", "best"])
def test_what_must_stay_does_not_leave_rounded(planner: str) -> None:
    """An input that is kept on the camera is not sent as its codes, either."""
    cost = _cost((2e7, 4e8, 8e8), near=1e6, up=1e6)
    result = _plan(cost, planner, keep_on={"t0": "camera"})
    place = {n: s.shards[0].device for s in result.plan.stages for n in s.layers}
    assert place["c0"] == "camera"
    compiled = compile_plan(cost.graph, result.plan, cost.cluster)
    sent = {stream.tensor for stream in compiled.program.streams}
    assert not sent & {"t0", "t0.quantized"}
    assert result.plan.keep_on == {"t0": "camera"}
    free = _plan(cost, planner)
    moved = {n: s.shards[0].device for s in free.plan.stages for n in s.layers}
    assert moved["c0"] != "camera"


def test_a_plan_that_sends_a_kept_input_rounded_is_refused() -> None:
    """Whoever wrote it: the rule is the compiler's."""
    cost = _cost((2e7, 4e8, 8e8), near=1e6, up=1e6)
    plan = _plan(cost).plan
    quantised = {"t0.quantized"} & set(planned_graph(cost.graph, plan).tensors)
    assert quantised
    kept = msgspec.structs.replace(plan, keep_on={"t0": "camera"})
    with pytest.raises(PlanError, match=r"'t0\.quantized' is kept on device 'camera'"):
        compile_plan(cost.graph, kept, cost.cluster)


@pytest.mark.parametrize("planner", ["autosplit", "tiers"])
def test_pins_that_forbid_everything_are_one_line(planner: str) -> None:
    """All must stay on a camera that cannot hold it: no plan, and why."""
    graph, _ = quantised_chain(8, 8, 16, 8, 4)
    keep_on = dict.fromkeys((*graph.inputs, "t1", "t2", "t3", *graph.outputs), "camera")
    with pytest.raises(InfeasibleError, match="camera"):
        _plan(_cost(camera_bytes=2000), planner, keep_on=keep_on)
