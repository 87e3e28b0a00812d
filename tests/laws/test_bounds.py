"""The lower bound holds for every plan, and falls with more, faster and nearer devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from partita.cluster import Cluster, Device, Link
from partita.compile import build_layout
from partita.errors import PlanError
from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.simulation import latency_s
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
    result = find_plan(cost, options=PlanOptions(budget_s=1e6, max_evaluations=150))
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
