"""Drafts are priced without programs exactly as their programs run."""

from __future__ import annotations

import random

import pytest

from partita.cluster import load_cluster
from partita.cost import CostModel, CostOptions
from partita.errors import PlanError
from partita.graph import Graph, load_graph
from partita.planners import Evaluator, PlanOptions
from partita.planners.pricing.costs import Costs
from partita.planners.pricing.incremental import IncrementalPricer
from partita.zoo import build_model
from tests.planners.drafts import draw_draft
from tests.planners.fakes import make_chain, make_cost, make_gated, make_residual, unlinked


def _compare(cost: Costs, options: PlanOptions, *, seed: int, count: int, longest: int) -> int:
    """Compare both ways of pricing; return how many drafts were possible."""
    evaluator = Evaluator(cost, options)
    rng = random.Random(seed)
    possible = 0
    for _ in range(count):
        draft = draw_draft(evaluator, rng, longest=longest)
        try:
            full = evaluator.evaluate(evaluator.problem.plan(draft))
        except PlanError:
            with pytest.raises(PlanError):
                evaluator.estimate(draft)
            continue
        quick = evaluator.estimate(draft)
        assert quick.latency_s == pytest.approx(full.latency_s, rel=1e-9)
        assert quick.messages == full.messages
        assert quick.bottleneck_s == pytest.approx(full.bottleneck_s, rel=1e-9)
        assert quick.energy_joules == pytest.approx(full.energy_joules, rel=1e-9)
        possible += 1
    return possible


def _small(kind: str, seed: int) -> Graph:
    if kind == "chain":
        return make_chain(5, seed=seed)
    return make_residual(seed) if kind == "residual" else make_gated()


@pytest.mark.parametrize("codec_s_per_byte", [0.0, 2e-9])
@pytest.mark.parametrize("kind", ["chain", "residual", "gated"])
def test_small_networks(kind: str, codec_s_per_byte: float) -> None:
    """On chains, sums and gates, with and without decoding, both ways agree."""
    for seed in range(6):
        rates = [1e7 * (1 + seed + 3 * number) for number in range(4)]
        cost = make_cost(
            _small(kind, seed),
            *rates,
            bandwidth=10.0 ** (5 + seed % 4),
            latency=1e-5 * (seed % 3),
            codec_s_per_byte=codec_s_per_byte,
        )
        options = PlanOptions(devices=cost.cluster.names[seed % 2 :])
        assert _compare(cost, options, seed=seed, count=12, longest=2) == 12


@pytest.mark.parametrize(("name", "size"), [("resnet50", 64), ("ssd_resnet50", 257)])
def test_large_networks_on_unequal_links(name: str, size: int) -> None:
    """Skips across stages and many outputs do not set the two ways apart."""
    graph = load_graph(build_model(name, size=size))
    cost = CostModel(graph, load_cluster("scenario:ND-nano"), options=CostOptions("float16"))
    options = PlanOptions(in_flight=2)
    assert _compare(cost, options, seed=3, count=6, longest=12) == 6


def test_drafts_that_break_a_rule_are_refused() -> None:
    """Missing links and tensors that must stay are found by the quick way too."""
    graph = make_chain(4)
    _compare(unlinked(graph), PlanOptions(), seed=1, count=25, longest=2)
    cost = make_cost(graph, 1e7, 2e7, 3e7)
    options = PlanOptions(keep_on={"t1": "d1"})
    assert 0 < _compare(cost, options, seed=5, count=60, longest=3) < 60


def test_overtaking_steps_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some random drafts let steps overtake each other, and those too are priced right."""
    replayed = []
    replay = IncrementalPricer._replay

    def count(self: IncrementalPricer, blocks: list[object]) -> object:
        replayed.append(1)
        return replay(self, blocks)  # type: ignore[arg-type]

    monkeypatch.setattr(IncrementalPricer, "_replay", count)
    cost = make_cost(make_chain(6, seed=4), 1e7, 3e7, 2e7, 5e7, bandwidth=1e6)
    _compare(cost, PlanOptions(), seed=2, count=40, longest=2)
    assert replayed
