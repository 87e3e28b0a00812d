"""More devices, time or freedom never give ``best`` a slower plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from partita.cluster import Cluster, Link
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.search.best import SMALL_SPACE
from partita.planners.search.exhaustive import Space
from tests.planners.fakes import FakeCost, make_chain

#: Latencies closer than this are equal.
EQUAL = 1e-9


def _cost(seed: int, rates: list[float], bandwidth: float) -> FakeCost:
    """Return a chain with too many plans to try all, on devices of these MAC/s."""
    names = [f"d{number}" for number in range(len(rates))]
    cluster = Cluster.of(names, bandwidth_bytes_per_s=bandwidth, latency_s=1e-5)
    cost = FakeCost(make_chain(6, seed=seed), cluster, dict(zip(names, rates, strict=True)))
    assert Space(Evaluator(cost, PlanOptions())).count(SMALL_SPACE) > SMALL_SPACE
    return cost


def _latency_s(cost: FakeCost, **options: object) -> float:
    return find_plan(cost, options=PlanOptions(most_s=1e6, **options)).latency_s  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_no_slower_with_more_evaluations(seed: int) -> None:
    """A larger budget continues the same search, wherever the smaller one ends."""
    cost = _cost(seed, [1e7, 2e7, 1.5e7], 3e6 * 10**seed)
    counts = (1, 40, 90, 200, 333, 700, 1500)
    found = [_latency_s(cost, max_evaluations=count) for count in counts]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


@pytest.mark.parametrize("seed", range(3))
def test_no_slower_with_one_more_slow_device(seed: int) -> None:
    """The search on all devices contains the search without the last of the order."""
    rates = [2e7, 1.9e7, 1.1e7, 0.9e7]
    found = [_latency_s(_cost(seed, rates[:count], 1e7)) for count in (2, 3, 4)]
    assert all(after <= before * (1 + EQUAL) for before, after in pairwise(found))


@pytest.mark.parametrize("seed", range(2))
def test_no_slower_with_faster_machines(seed: int) -> None:
    """A faster device in the middle of the order, or faster links, never cost time."""
    slow = _cost(seed, [1e7, 2e7, 1.5e7], 1e7)
    faster = replace(slow, macs_per_s={**slow.macs_per_s, "d2": 1.8e7}, _seen={})
    links = [Link(link.source, link.target, 3e7, link.latency_s) for link in slow.cluster.links]
    linked = replace(faster, cluster=Cluster.of(list(slow.cluster.devices), links=links), _seen={})
    found = [_latency_s(cost) for cost in (slow, faster, linked)]
    assert all(after <= before * (1 + EQUAL) for before, after in pairwise(found))


@pytest.mark.parametrize("seed", range(2))
def test_no_slower_with_more_axes(seed: int) -> None:
    """Whoever allows more axes than rows gets at least the plan of rows alone."""
    cost = _cost(seed, [1e7, 2e7, 1.5e7], 1e7)
    rows_s = _latency_s(cost, axes=("rows",))
    for axes in (("rows", "tiles"), ("rows", "output_channels"), None):
        assert _latency_s(cost, axes=axes) <= rows_s * (1 + EQUAL)
