"""The lower bound holds for every plan, and falls with more, faster and nearer devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from partita.cluster import Cluster, Device, Link
from partita.compile import build_layout
from partita.errors import PlanError
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.bounds.least_period import fluid_period_s, least_period_s
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.simulation import answer_period_s, latency_s
from tests.laws.random_plans import draw_plan
from tests.planners.fakes import (
    FakeCost,
    make_attention,
    make_chain,
    make_dense,
    make_gated,
    make_residual,
)

#: The bound is that of a linear program, solved up to rounding.
_ROUNDING = 1 + 1e-6


def _draw(rng: Random, seed: int) -> FakeCost:
    """Return a small network on devices whose links are uneven, slow to use, or missing."""
    makers: list[Callable[[], Graph]] = [
        lambda: make_chain(4, seed=seed),
        lambda: make_residual(seed),
        make_gated,
        make_attention,
        make_dense,
    ]
    graph = rng.choice(makers)()
    names = [f"d{number}" for number in range(rng.randint(1, 5))]
    rates = {name: rng.uniform(0.5, 8) * 1e7 for name in names}
    links = [
        Link(a, b, 10 ** rng.uniform(5, 9), rng.choice((0.0, 1e-5, 1e-3)), rng.choice((0.0, 1e-4)))
        for a in names
        for b in names
        if a != b and rng.random() < 0.9
    ]
    ports = [rng.choice((None, None, 10 ** rng.uniform(5, 8))) for _ in names]
    devices = [Device(n, port_bytes_per_s=port) for n, port in zip(names, ports, strict=True)]
    cluster = Cluster.of(devices, requester=rng.choice(names), links=links)
    codec = rng.choice((0.0, 1e-8))
    return FakeCost(graph, cluster, rates, rng.choice((0.0, 1e-5)), rng.choice((1, 2)), codec)


def _bound_s(cost: FakeCost) -> float:
    return lower_bound_s(Evaluator(cost, PlanOptions()))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_plan_beats_its_bound(seed: int) -> None:
    """Any stages on any devices along any axes, sums of parts and replicas: none is faster."""
    rng = Random(seed)
    cost = _draw(rng, seed)
    bound_s = _bound_s(cost)
    for _ in range(8):
        try:
            layout = build_layout(
                cost.graph, draw_plan(rng, cost.graph, cost.cluster), cost.cluster
            )
        except PlanError:
            continue  # asks for a link that is missing
        assert bound_s <= latency_s(layout.program, cost.price(layout)) * (1 + 1e-12)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_no_search_beats_the_bound(seed: int) -> None:
    """Good plans come near it, and do not fall below."""
    cost = _draw(Random(seed), seed)
    result = find_plan(cost, options=PlanOptions(most_s=1e6, max_evaluations=150))
    assert result.lower_bound_s <= result.latency_s


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_better_clusters_have_no_higher_bound(seed: int) -> None:
    """One device twice as fast, all links without delay, more devices than the requester alone."""
    rng = Random(seed)
    cost = _draw(rng, seed)
    bound_s = _bound_s(cost)
    device = rng.choice(cost.cluster.names)
    faster = replace(cost, macs_per_s={**cost.macs_per_s, device: 2 * cost.macs_per_s[device]})
    assert _bound_s(replace(faster, _seen={})) <= bound_s * _ROUNDING
    links = [
        replace(link, bandwidth_bytes_per_s=1e10, latency_s=0.0) for link in cost.cluster.links
    ]
    nearer = replace(cost, cluster=replace(cost.cluster, links=tuple(links)), _seen={})
    assert _bound_s(nearer) <= bound_s * _ROUNDING
    alone = PlanOptions(devices=(cost.cluster.requester,))
    assert bound_s <= lower_bound_s(Evaluator(cost, alone)) * _ROUNDING


def test_bound_counts_what_the_requester_must_send() -> None:
    """A requester that may not compute waits for its input's way out and the answer's way back."""
    rng = Random(3)
    graph = make_chain(3, seed=3)
    cluster = Cluster.of(["home", "far"], bandwidth_bytes_per_s=1e5, latency_s=0.5)
    cost = FakeCost(graph, cluster, {"home": 1e7, "far": rng.uniform(1e6, 1e7)})
    far = lower_bound_s(Evaluator(cost, PlanOptions(devices=("far",))))
    assert far >= 1.0 + graph.size_bytes(graph.inputs[0]) / 1e5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_no_plan_under_load_beats_the_least_period(seed: int) -> None:
    """With any requests in flight, routes and shares, none answers more often than the fluid."""
    rng = Random(seed)
    cost = _draw(rng, seed)
    bounds: dict[int, float] = {}
    for _ in range(6):
        plan = _with_shares(rng, draw_plan(rng, cost.graph, cost.cluster))
        try:
            layout = build_layout(cost.graph, plan, cost.cluster)
        except PlanError:
            continue  # asks for a link that is missing
        evaluator = Evaluator(cost, PlanOptions(in_flight=plan.in_flight))
        if plan.in_flight not in bounds:
            bounds[plan.in_flight] = least_period_s(evaluator, lower_bound_s(evaluator))
        found_s = answer_period_s(layout.program, cost.price(layout))
        # What is counted begins and ends with answers, which come a little early or late.
        assert bounds[plan.in_flight] <= found_s * 1.002


def _with_shares(rng: Random, plan: Plan) -> Plan:
    """Half of the plans have drawn shares for their replicas."""
    if rng.random() < 0.5:
        return plan
    stages = tuple(
        structs.replace(stage, shares=tuple(rng.randint(1, 4) for _ in stage.shards))
        if stage.axis == "replica"
        else stage
        for stage in plan.stages
    )
    return structs.replace(plan, stages=stages)


def test_the_least_period_is_reached_by_replicas_and_falls_with_links() -> None:
    """Devices of 1 and 3 networks per second give 4 where links are wide, else what links carry."""
    graph = make_chain(3, seed=1)
    work = sum(layer.macs + 2 * layer.output_bytes for layer in graph.layers)
    rates = {"d0": float(work), "d1": 3.0 * work}
    period = {}
    for bandwidth in (1e9, graph.size_bytes(graph.inputs[0]) * 1.0):
        cluster = Cluster.of(list(rates), bandwidth_bytes_per_s=bandwidth)
        evaluator = Evaluator(FakeCost(graph, cluster, rates, 0.0), PlanOptions(in_flight=8))
        period[bandwidth] = fluid_period_s(evaluator)
    wide, narrow = period.values()
    assert wide == pytest.approx(1 / 4, rel=1e-6)
    # One input per second passes, of which a part is enough only where little is computed there.
    assert 1 / 3 < narrow <= 1 / 2 + 1e-6


@pytest.mark.parametrize("kind", ["medium", "port"])
def test_links_that_take_turns_carry_no_more_together(kind: str) -> None:
    """Three devices behind one radio, or one port, get the inputs one after the other."""
    graph = make_gated()
    names = ["home", "a", "b", "c"]
    size = graph.size_bytes(graph.inputs[0])
    medium, port, rate = ("air", None, size) if kind == "medium" else (None, float(size), 1e9)
    links = [Link(a, b, float(rate), medium=medium) for a in names for b in names if a != b]
    devices = [Device(name, port_bytes_per_s=port if name == "home" else None) for name in names]
    cluster = Cluster.of(devices, links=links)
    cost = FakeCost(graph, cluster, dict.fromkeys(names, 1e12), 0.0)
    evaluator = Evaluator(cost, PlanOptions(devices=("a", "b", "c"), in_flight=8))
    assert fluid_period_s(evaluator) >= 1.0 - 1e-6
