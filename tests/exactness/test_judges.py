"""Judges: labels, agreement with the float network, and the power that is no noise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from partita.errors import InputError, PlanError
from partita.exactness.accuracy import ask_judge
from partita.exactness.judges import RULES, DataJudge, Run, choose_rule
from partita.graph.whole import WholeModel
from partita.plan import Plan
from partita.planners import find_plan
from partita.quantisation import Sample, choose_bits, collect_ranges, quantize
from tests.planners.fakes import conv, make_chain, make_cost, make_graph
from tests.trained import draw_pictures, train

PICTURES, LABELS = draw_pictures(60, 4)
LABELLED = [
    Sample({"x": picture}, Path("x"), int(label))
    for picture, label in zip(PICTURES, LABELS, strict=True)
]
PLAIN = [replace(sample, label=None) for sample in LABELLED]


def _plans() -> tuple[Plan, Plan]:
    """Return a plan of the network as it is, and one of 4 bits."""
    graph = train().graph
    plan = find_plan(make_cost(graph, 1e7), planner="cloud_only").plan
    bits = choose_bits(graph, collect_ranges(graph, [{"x": p} for p in PICTURES[:5]]), 4, 4)
    return plan, msgspec.structs.replace(plan, bits=bits)


def _answers(plan: Plan) -> list[np.ndarray]:
    graph = train().graph
    run = WholeModel(quantize(graph, plan.bits) if plan.bits else graph).run
    return [run(sample.feeds)["y"] for sample in LABELLED]


def _judge(data: Sequence[Sample]) -> tuple[str, DataJudge]:
    graph = train().graph
    words, rule = choose_rule(graph, data)
    return words, DataJudge(graph, data, rule, make_cost(graph, 1e7).cluster)


def test_labels_are_what_answers_are_compared_with() -> None:
    """One where the highest score is the label's, as counted here again."""
    words, judge = _judge(LABELLED)
    assert words == "top-1"
    for plan in _plans():
        right = [
            float(a.argmax() == s.label) for a, s in zip(_answers(plan), LABELLED, strict=True)
        ]
        assert judge(plan) == right
    assert sum(judge(_plans()[0])) > 0.8 * len(LABELLED)  # type: ignore[arg-type]


def test_without_labels_the_float_network_is() -> None:
    """It agrees with itself always, its quantised self mostly."""
    words, judge = _judge(PLAIN)
    assert words == "top-1 agreement with the float model"
    plain, quantised = _plans()
    assert judge(plain) == [1.0] * len(PLAIN)
    expected = [
        a.argmax() == b.argmax() for a, b in zip(_answers(plain), _answers(quantised), strict=True)
    ]
    assert judge(quantised) == [float(same) for same in expected]
    assert 0.5 < np.mean(expected) < 1


def test_of_several_outputs_the_worst_counts() -> None:
    """One that is kept does not hide what another loses; agreement is of one output alone."""
    parts = [*conv("c", "x", "y", (2, 2, 1, 1)), *conv("d", "x", "z", (2, 2, 1, 1))]
    graph = make_graph(parts, {"x": (1, 2, 4, 4)}, ["y", "z"])
    data = [Sample({"x": np.ones((1, 2, 4, 4), np.float32)}, Path("x"))]
    words, rule = choose_rule(graph, data)
    assert words.endswith("of 2 outputs the one that loses most")
    whole = WholeModel(graph).run(data[0].feeds)
    assert rule(lambda feeds: {"y": whole["y"], "z": 0.9 * whole["z"]}, data) == [
        pytest.approx(0.99)
    ]
    assert rule(lambda feeds: whole, data) == [1.0]
    with pytest.raises(InputError, match="answer: it has 2 outputs; allowed: signal, or a"):
        choose_rule(graph, data, "agreement")


def test_outputs_that_are_no_classes_are_compared_as_signals() -> None:
    """1 less noise over signal: 0.99 are 20 dB."""
    graph = make_chain(2)
    rng = np.random.default_rng(0)
    specs = graph.input_specs
    data = [
        Sample({s.name: rng.random(s.shape, np.float32) for s in specs}, Path("x"))
        for _ in range(4)
    ]
    words, rule = choose_rule(graph, data)
    assert words == "part of the float outputs' power that is no noise"
    whole = WholeModel(graph).run
    (name,) = graph.outputs

    def noisy(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: whole(feeds)[name] * np.float32(1.1)}

    assert rule(whole, data) == [1.0] * 4
    assert rule(noisy, data) == pytest.approx([0.99] * 4, abs=1e-5)


def test_the_users_function_gets_a_network_and_the_data() -> None:
    """It is called once for plans that compute alike, and told of with each request."""
    plain, quantised = _plans()
    calls: list[int] = []

    def rule(run: Run, data: Sequence[Sample]) -> float:
        calls.append(len(data))
        return float(np.mean([run(sample.feeds)["y"].max() for sample in data]))

    graph = train().graph
    judge = DataJudge(graph, PLAIN, rule, make_cost(graph, 1e7).cluster)
    other = msgspec.structs.replace(plain, stages=plain.stages[:1], seed=3)
    assert (
        judge(plain) == judge(other) == pytest.approx(np.mean([a.max() for a in _answers(plain)]))
    )
    assert judge(quantised) != judge(plain)
    assert calls == [len(PLAIN)] * 2


def test_scores_are_of_all_samples() -> None:
    """Three of them say nothing of the others, nor does a judge that ends the program."""
    plain, _ = _plans()
    graph = train().graph
    cluster = make_cost(graph, 1e7).cluster
    judge = DataJudge(graph, PLAIN, lambda run, data: [1.0] * 3, cluster)
    with pytest.raises(PlanError, match=f"answered 3 scores for {len(PLAIN)} samples"):
        judge(plain)
    with pytest.raises(PlanError, match="judge of plans failed: SystemExit: 3"):
        ask_judge(DataJudge(graph, PLAIN, lambda run, data: sys.exit(3), cluster), plain)


def test_lossy_transfers_count() -> None:
    """What crosses in one bit is judged as it arrives."""
    graph = train().graph
    cost = make_cost(graph, 1e3, 1e9, bandwidth=1e9)
    plan = find_plan(cost, planner="cloud_only").plan
    lossy = msgspec.structs.replace(plan, wires={"x": "uint1"})
    _, rule = choose_rule(graph, LABELLED)
    judge = DataJudge(graph, LABELLED[:20], rule, cost.cluster)
    assert sum(judge(lossy)) < sum(judge(plan))  # type: ignore[arg-type]


def test_a_rule_may_be_named_where_it_fits() -> None:
    """A classifier's scores are a signal, too; what does not fit is one line."""
    graph = train().graph
    words, rule = choose_rule(graph, LABELLED[:3], "signal")
    assert words == RULES["signal"]
    assert rule(WholeModel(graph).run, LABELLED[:3]) == [1.0] * 3
    for name, data, network, message in (
        ("labels", PLAIN, graph, "needs a folder of samples for each class"),
        ("agreement", PLAIN, make_chain(2), "needs scores of classes"),
        ("psnr", PLAIN, graph, "'psnr' is unknown; allowed: labels, agreement, signal, MODULE:"),
    ):
        with pytest.raises(InputError, match=message):
            choose_rule(network, data, name)
