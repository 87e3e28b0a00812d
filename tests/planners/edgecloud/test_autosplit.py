"""AUTO-SPLIT as a planner: cuts and widths together, judged by accuracy or by a bound on errors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from onnx import numpy_helper

from partita.cli.inputs import draw_inputs
from partita.compile import check_plan, compile_plan, planned_graph
from partita.errors import PlanError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.graph import Graph
from partita.plan import Plan, dump_plan, load_plan
from partita.planners import PlanOptions, Result, find_plan
from partita.planners.edgecloud import autosplit
from partita.planners.edgecloud.split_problem import Candidate
from partita.planners.edgecloud.trade_offs import list_candidates
from partita.quantisation import QuantisationData, collect_ranges, tabulate_errors
from partita.regions import Packing
from tests.planners.edgecloud.narrow_costs import IntegerCost
from tests.planners.fakes import (
    conv,
    make_chain,
    make_cost,
    make_graph,
    make_residual,
)

WIDTHS = (2, 4, 8)


@cache
def _network() -> tuple[Graph, QuantisationData]:
    rng = np.random.default_rng(0)
    parts: list[object] = []
    for number, (before, after) in enumerate(pairwise((8, 8, 16, 8, 4))):
        node, weights = conv(f"c{number}", f"t{number}", f"t{number + 1}", (after, before, 3, 3))
        drawn = rng.standard_normal((after, before, 3, 3)).astype(np.float32) / 10
        parts += [node, numpy_helper.from_array(drawn, weights.name)]  # type: ignore[attr-defined]
    graph = make_graph(parts, {"t0": (1, 8, 16, 16)}, ["t4"])
    specs = graph.input_specs
    samples = [
        {spec.name: rng.standard_normal(spec.shape).astype(np.float32) for spec in specs}
        for _ in range(3)
    ]
    ranges = collect_ranges(graph, samples)
    return graph, QuantisationData(tabulate_errors(graph, ranges, WIDTHS), ranges)


def _cost() -> IntegerCost:
    graph, _ = _network()
    cost = make_cost(graph, 2e7, 6e7, bandwidth=3e5)
    return IntegerCost(graph, cost.cluster, cost.macs_per_s)


def _plan(*, method: dict[str, str] | None = None, **options: object) -> Result:
    _, data = _network()
    given = {f"autosplit.{key}": value for key, value in (method or {}).items()}
    wanted = PlanOptions(quantisation=data, method=given, **options)  # type: ignore[arg-type]
    return find_plan(_cost(), planner="autosplit", options=wanted)


def _narrowest(plan: Plan) -> int:
    widths = [w for one in plan.bits.values() for w in (one.weight, one.activation) if w]
    return min(widths, default=32)


def _judge(plan: Plan) -> float:
    """Return an accuracy that 8 bits keep, 4 bits nearly, and 2 bits do not."""
    return {2: 0.3, 4: 0.78, 8: 0.79, 32: 0.8}[_narrowest(plan)]


@pytest.mark.parametrize("rate", [1e4, 1e6, 1e8])
def test_without_samples_it_is_the_best_cut(rate: float) -> None:
    """Nothing is quantised: the best place of the order, as Neurosurgeon finds it."""
    for graph in (make_chain(5), make_residual(1)):
        cost = make_cost(graph, 2e7, 9e7, bandwidth=rate)
        ours, other = (find_plan(cost, planner=name) for name in ("autosplit", "neurosurgeon"))
        assert ours.plan.stages == other.plan.stages
        assert not ours.plan.bits


def test_a_bound_on_errors_chooses_widths() -> None:
    """Any error, little error, none: ever later; the plan is sound and of the quantised graph."""
    graph, _ = _network()
    bounds = (1e9, 1e-3, 0.0)
    results = [_plan(method={"most_error": str(bound)}) for bound in bounds]
    for result, bound in zip(results, bounds, strict=True):
        assert all(one.error <= bound for one in result.trade_offs)
        quantised = planned_graph(graph, result.plan)
        assert result.plan.model.hash == quantised.hash
        check_plan(graph, result.plan, _cost().cluster)
        assert load_plan(dump_plan(result.plan)).bits == result.plan.bits
        assert result.lower_bound_s <= result.latency_s
    latencies = [result.latency_s for result in results]
    assert latencies == sorted(latencies)
    assert latencies[0] < latencies[2]
    assert {one.weight for one in results[0].plan.bits.values()} - {None}
    assert {one.weight for one in results[2].plan.bits.values()} <= {None}


def test_a_judge_chooses_the_soonest_that_is_accurate_enough() -> None:
    """2 bits lose too much, 4 bits lose 2.5 % of the accuracy, 8 bits 1.25 %."""
    for drop, least in ((0.7, 2), (0.03, 4), (0.02, 8)):
        result = _plan(judge=_judge, accuracy_drop=drop)
        assert result.plan.bits
        assert _narrowest(result.plan) >= least
        number = [one.is_chosen for one in result.trade_offs].index(True)
        drops = [one.accuracy.drop for one in result.trade_offs[: number + 1] if one.accuracy]
        assert [lost <= drop for lost in drops] == [False] * number + [True]
        assert result.trade_offs[number].latency_s == result.latency_s
        assert result.accuracy == result.trade_offs[number].accuracy
        assert {one.kind for one in result.trade_offs if not one.bits} >= {"cloud", "edge"}
    latencies = [one.latency_s for one in result.trade_offs if one.bits]
    assert latencies == sorted(latencies)


def test_a_search_rounds_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices go by shapes and widths: the search has no more in memory than the network's own."""
    _network()  # whose error tables have found the ranges of weights

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Packing, "round", fail)
    result = _plan(judge=_judge, accuracy_drop=0.02)
    assert result.plan.bits
    assert result.plan.model.hash


def test_choices_tell_what_they_leave_as_it_is() -> None:
    """A choice with bits for some layers is not shown as one with these bits for all."""
    graph, data = _network()
    choices = [one for one in _plan(judge=lambda plan: 1.0).trade_offs if one.bits]
    assert len({one.leaves for one in choices}) > 1
    for one in choices:
        edge = [layer.name for layer in graph.layers[: one.edge_layers]]
        known = {name: bits.weight for name, bits in one.bits.items()}
        left = [name for name in edge if name in data.errors.weights and not known.get(name)]
        assert one.leaves[0] == bool(left)


def test_sums_that_mislead_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where candidates come in the wrong order the soonest price still wins."""
    expected = _plan(judge=lambda plan: 1.0)

    def mislead(*given: object, **more: object) -> list[Candidate]:
        listed = list_candidates(*given, **more)  # type: ignore[arg-type]
        return [replace(candidate, latency_s=0.0) for candidate in reversed(listed)]

    monkeypatch.setattr(autosplit, "list_candidates", mislead)
    assert _plan(judge=lambda plan: 1.0).latency_s == expected.latency_s


def test_where_nothing_is_accurate_enough_nothing_is_quantised() -> None:
    """The best exact plan stands in, and what was looked at is told."""
    result = _plan(judge=lambda plan: 0.0 if plan.bits else 1.0)
    exact = find_plan(_cost(), planner="autosplit")
    assert result.plan.stages == exact.plan.stages
    assert not result.plan.bits
    assert result.trade_offs


@pytest.mark.parametrize("method", [{}, {"allocation": "lagrangian"}, {"as_printed": "yes"}])
def test_it_is_never_slower_than_exact_rivals(method: dict[str, str]) -> None:
    """Than all in the cloud, all on the edge, and the best cut."""
    result = _plan(judge=_judge, accuracy_drop=0.5, method=method)
    for name in ("cloud_only", "edge_only", "neurosurgeon"):
        assert result.latency_s <= find_plan(_cost(), planner=name).latency_s
    assert _judge(result.plan) >= 0.4


def test_as_printed_every_layer_of_the_edge_is_quantised() -> None:
    """Algorithm 1 has no width for what is left as it is."""
    result = _plan(method={"as_printed": "yes", "most_error": "1e9"})
    assert result.plan.bits
    assert all(one.weight or one.activation for one in result.plan.bits.values())


def test_without_a_word_on_accuracy_samples_are_not_enough() -> None:
    """One line says what is missing."""
    with pytest.raises(PlanError, match=r"what accuracy is enough.*autosplit\.most_error"):
        _plan()


def test_a_judge_that_fails_is_named() -> None:
    """What it raised, or that its answer is no number."""

    def fail(_: Plan) -> float:
        raise ValueError("no data")

    with pytest.raises(PlanError, match="judge of plans failed: ValueError: no data"):
        _plan(judge=fail)
    with pytest.raises(PlanError, match="judge of plans answered nan"):
        _plan(judge=lambda plan: float("nan"))


def test_a_split_answers_as_the_whole_quantised_network() -> None:
    """Layers on both devices, what crosses sent as its codes: nothing is lost by dividing."""
    graph, _ = _network()
    result = _plan(method={"most_error": "1e-2"}, keep_on={"t3": "d1"})
    assert {s.shards[0].device for s in result.plan.stages} == {"d0", "d1"}
    assert result.plan.bits
    quantised = planned_graph(graph, result.plan)
    compiled = compile_plan(graph, result.plan, _cost().cluster)
    sent = {s.tensor: s.wire for s in compiled.program.streams if s.tensor != "t4"}
    assert sent
    assert all(wire.startswith("codes") for wire in sent.values())
    pieces = check_exactness(quantised, compiled, draw_inputs(graph.input_specs, 1, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(quantised)


@pytest.mark.parametrize("planner", ["edge_only", "qdmp"])
def test_rivals_have_one_width_on_the_edge(planner: str) -> None:
    """All on the edge, and the cut of the network as it is, at 4 bits; without samples a line."""
    graph, data = _network()
    method = {f"{planner}.bits": "4"}
    options = PlanOptions(quantisation=data, method=method)
    result = find_plan(_cost(), planner=planner, options=options)
    plain = find_plan(_cost(), planner=planner)
    edge = {n for s in result.plan.stages if s.shards[0].device == "d0" for n in s.layers}
    names = {layer.name for layer in graph.layers}
    assert edge & names == {
        n for s in plain.plan.stages if s.shards[0].device == "d0" for n in s.layers
    }
    assert {one.weight for name, one in result.plan.bits.items() if name in names} == {4}
    assert result.latency_s < plain.latency_s
    with pytest.raises(PlanError, match="4 bits without samples"):
        find_plan(_cost(), planner=planner, options=PlanOptions(method=method))
    with pytest.raises(PlanError, match="must be 2, 3, 4, 6, 8 or none"):
        find_plan(
            _cost(),
            planner=planner,
            options=PlanOptions(quantisation=data, method={f"{planner}.bits": "5"}),
        )


def test_best_stays_exact() -> None:
    """The planner to use takes no accuracy for latency, whatever samples say."""
    _, data = _network()
    options = PlanOptions(
        quantisation=data, max_evaluations=100, method={"edge_only.bits": "4", "qdmp.bits": "4"}
    )
    result = find_plan(_cost(), options=options)
    assert not result.plan.bits
