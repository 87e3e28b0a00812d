"""Pipelines against the published programs for the same question, on the same costs.

Both are restated here from their papers, small and slow: the scheduler of PipeEdge (Hu et al.,
2022), and the max-load program of dnn-partitioning (Tarnawski et al., 2020).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from math import inf

import pytest
from benchmarks.harness import find_model

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.graph import load_graph
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions
from partita.planners.simple.cut import Cuts
from tests.planners.fakes import make_chain, make_cost

Peer = Callable[[Evaluator, Sequence[tuple[str, ...]]], Draft]


def pipeedge(evaluator: Evaluator, types: Sequence[tuple[str, ...]]) -> Draft:
    """Layers by devices used by type and next device: the least largest stage or message."""
    ranges, count = evaluator.ranges, len(evaluator.outline)

    @cache
    def best(stop: int, used: tuple[int, ...], last: str) -> tuple[float, Draft]:
        if not stop:
            return (0.0 if not any(used) else inf), ()
        found: tuple[float, Draft] = (inf, ())
        kind = next(n for n, names in enumerate(types) if last in names)
        if not used[kind] or types[kind][used[kind] - 1] != last:
            return found
        before = tuple(n - (at == kind) for at, n in enumerate(used))
        sources = [evaluator.requester] if not any(before) else tails(before)
        for start in range(stop):
            if bool(start) != any(before):
                continue
            for source in sources:
                reached, draft = best(start, before, source)
                sent = ranges.busy_s(start, source, last)
                value = max(reached, sent, ranges.work_s(start, stop, last))
                if value < found[0]:
                    found = value, (*draft, DraftStage(start, stop, "none", (last,)))
        return found

    def tails(used: tuple[int, ...]) -> list[str]:
        return [types[kind][number - 1] for kind, number in enumerate(used) if number]

    ends = [
        (max(value, ranges.busy_s(count, last, evaluator.requester)), draft)
        for used in counts(types)
        for last in tails(used)
        for value, draft in [best(count, used, last)]
    ]
    return min(ends, key=lambda end: end[0])[1]


def dnn_partitioning(evaluator: Evaluator, types: Sequence[tuple[str, ...]]) -> Draft:
    """Ideals by devices used by type: the least largest load, moves in and out part of it.

    The ideals of a chain are its beginnings. Moves take what they take from and to the requester:
    the program knows no links, but one bandwidth.
    """
    ranges, count, home = evaluator.ranges, len(evaluator.outline), evaluator.requester
    away = next((d for names in types for d in names if d != home), home)

    @cache
    def load_s(start: int, stop: int, device: str) -> float:
        inward, outward = ranges.busy_s(start, home, away), ranges.busy_s(stop, home, away)
        return inward + ranges.work_s(start, stop, device) + outward

    @cache
    def best(stop: int, left: tuple[int, ...]) -> tuple[float, Draft]:
        if not stop:
            return 0.0, ()
        found: tuple[float, Draft] = (inf, ())
        for kind, number in enumerate(left):
            if number:
                device = types[kind][number - 1]
                fewer = tuple(n - (at == kind) for at, n in enumerate(left))
                for start in range(stop):
                    reached, draft = best(start, fewer)
                    value = max(reached, load_s(start, stop, device))
                    if value < found[0]:
                        found = value, (*draft, DraftStage(start, stop, "none", (device,)))
        return found

    return best(count, tuple(map(len, types)))[1]


def counts(types: Sequence[tuple[str, ...]]) -> list[tuple[int, ...]]:
    """How many devices of each type may be used."""
    found: list[tuple[int, ...]] = [()]
    for names in types:
        found = [(*one, number) for one in found for number in range(len(names) + 1)]
    return found


@pytest.mark.parametrize("peer", [pipeedge, dnn_partitioning])
@pytest.mark.parametrize("seed", range(8))
def test_no_published_pipeline_is_less_busy(seed: int, peer: Peer) -> None:
    """On drawn chains, devices of two types, links slow or fast."""
    rng = random.Random(seed)
    slow, fast = 10 ** rng.uniform(5.5, 6.5), 10 ** rng.uniform(6, 7)
    rates = [slow] * 3 + [fast] * 2
    cost = make_cost(make_chain(8, seed=seed), *rates, bandwidth=10 ** rng.uniform(5, 8))
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=16))
    types = [("d0", "d1", "d2"), ("d3", "d4")]
    assert _busiest_s(evaluator) <= _of(evaluator, peer(evaluator, types)) * (1 + 1e-9)


def test_six_boards_answer_no_fewer_requests_than_published() -> None:
    """ResNet-50 on six Raspberry Pi 4, where few places to cut cost a sixth of the throughput."""
    names = tuple(f"d{n}" for n in range(6))
    cluster = Cluster.of(
        [Device(name, kind="raspberry-pi-4") for name in names],
        bandwidth_bytes_per_s=25e6,
        latency_s=2e-3,
    )
    cost = CostModel(load_graph(find_model("light_resnet50")), cluster)
    evaluator = Evaluator(cost, PlanOptions(objective="throughput", in_flight=24))
    found_s = _busiest_s(evaluator)
    for peer in (pipeedge, dnn_partitioning):
        assert found_s <= _of(evaluator, peer(evaluator, [names])) * (1 + 1e-9)


def _busiest_s(evaluator: Evaluator) -> float:
    return min(_of(evaluator, draft) for draft in Cuts(evaluator).drafts())


def _of(evaluator: Evaluator, draft: Draft) -> float:
    return evaluator.estimate(draft).bottleneck_s
