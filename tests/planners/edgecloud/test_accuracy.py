"""Accuracy as a constraint: what is lost on data held out, and thresholds that nobody meets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from partita.cluster import Cluster, Device
from partita.errors import InfeasibleError
from partita.exactness.accuracy import measure_accuracy
from partita.exactness.judges import DataJudge, choose_rule
from partita.planners import PlanOptions, Result, find_plan
from partita.quantisation import (
    QuantisationData,
    Sample,
    collect_ranges,
    divide_samples,
    tabulate_errors,
)
from tests.planners.edgecloud.narrow_costs import NarrowCost
from tests.planners.fakes import make_cost
from tests.trained import draw_pictures, train


def _draw(count: int, seed: int) -> list[Sample]:
    pictures, labels = draw_pictures(count, seed)
    return [
        Sample({"x": picture}, Path("x"), int(label))
        for picture, label in zip(pictures, labels, strict=True)
    ]


@cache
def _data() -> tuple[QuantisationData, DataJudge, DataJudge]:
    """Return what samples say, a judge on others of them, and one on data held out."""
    graph = train().graph
    for_ranges, judged = divide_samples(_draw(400, 11))
    ranges = collect_ranges(graph, [sample.feeds for sample in for_ranges])
    judges = []
    for data in (judged, _draw(1000, 12)):
        _, rule = choose_rule(graph, data)
        judges.append(DataJudge(graph, data, rule, _cost().cluster))
    return QuantisationData(tabulate_errors(graph, ranges), ranges), judges[0], judges[1]


def _cost() -> NarrowCost:
    graph = train().graph
    cost = make_cost(graph, 2e7, 9e8, bandwidth=3e4)
    return NarrowCost(graph, cost.cluster, cost.macs_per_s)


def _plan(cost: NarrowCost | None = None, **options: object) -> Result:
    data, judge, _ = _data()
    given = {"quantisation": data, "judge": judge, **options}
    return find_plan(cost or _cost(), planner="autosplit", options=PlanOptions(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize("drop", [0.005, 0.02, 0.05, 0.15])
def test_the_drop_on_data_held_out_is_the_one_that_was_allowed(drop: float) -> None:
    """Within the threshold, or beyond it by no more than half the 95 % interval."""
    result = _plan(accuracy_drop=drop)
    assert result.plan.bits
    judged = result.accuracy
    assert judged is not None
    assert judged.drop <= drop
    assert judged.interval is not None
    exact = find_plan(_cost(), planner="cloud_only").plan
    held_out = measure_accuracy(_data()[2], result.plan, exact)
    assert held_out.drop <= drop + (judged.interval[1] - judged.interval[0]) / 2


def test_a_larger_drop_is_never_later() -> None:
    """Each step is one that the one before would have taken, too."""
    latencies = [_plan(accuracy_drop=drop).latency_s for drop in (0.0, 0.02, 0.05, 0.15, 0.5)]
    assert latencies == sorted(latencies, reverse=True)
    assert latencies[-1] < latencies[0]


def test_all_choices_are_judged_where_that_is_asked() -> None:
    """The choice is the same; what comes after it has an accuracy, too."""
    some, every = _plan(), _plan(judge_all=True)
    assert some.plan == every.plan
    assert any(each.accuracy is None for each in some.trade_offs)
    assert all(each.accuracy is not None for each in every.trade_offs)
    chosen = [each.is_chosen for each in every.trade_offs]
    assert sum(chosen) == 1
    before = every.trade_offs[: chosen.index(True)]
    assert all(each.accuracy and each.accuracy.drop > 0.05 for each in before)
    assert [each.latency_s for each in before] == sorted(each.latency_s for each in before)


def test_a_threshold_that_nothing_meets_leaves_the_network_as_it_is() -> None:
    """The best exact plan, and the note says what the least loss was."""
    result = _plan(judge=lambda plan: 0.5 if plan.bits else 1.0)
    assert not result.plan.bits
    assert (
        "no widths keep accuracy to within 5 % of the network's: 50 % is the least" in result.note
    )
    assert result.accuracy is not None
    assert result.accuracy.interval == (0.0, 0.0)


def _small_edge() -> NarrowCost:
    """Return costs with an edge that has room for a little less than the weights as they are."""
    cost = _cost()
    devices = [Device("d0", memory_bytes=train().graph.weight_bytes - 1000), Device("d1")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=3e4)
    return NarrowCost(cost.graph, cluster, cost.macs_per_s)


def test_a_pin_and_a_threshold_may_leave_no_plan() -> None:
    """The picture must stay on the camera, which has no room for the network as it is."""
    pinned = {"keep_on": dict.fromkeys(("x", "r0", "r1", "f"), "d0")}
    cost = _small_edge()
    result = _plan(cost, **pinned)
    assert result.plan.bits
    with pytest.raises(InfeasibleError, match=r"No plan is accurate enough: .* 50 % is the least"):
        _plan(cost, judge=lambda plan: 0.5 if plan.bits else 1.0, **pinned)


def test_a_plan_says_why() -> None:
    """Rivals with their seconds, where cuts are small, and the rules of thumb."""
    why, cuts, rules = _plan().advice
    assert why.startswith("all on the edge takes")
    assert "as it is all in the cloud it takes" in why
    assert "to send 3.07 kB of input" in why
    assert "first after layer 'conv1' (2 of 5) at 2 bits" in cuts
    assert "nowhere at 32 bits" in cuts
    assert rules == "rules of thumb expect all on the edge (weights of 37.1 kB, < 50 MB)"


def test_the_network_as_it_is_has_an_accuracy_where_nothing_else_is_possible() -> None:
    """A camera that has room for nothing: what all in the cloud reaches is said beside it."""
    cost = _cost()
    devices = [Device("d0", memory_bytes=3500), Device("d1")]
    full = Cluster.of(devices, bandwidth_bytes_per_s=3e4)
    found = _plan(cost.on(full))
    assert [each.kind for each in found.trade_offs] == ["cloud"]
    assert found.accuracy is not None
    assert found.accuracy.drop == 0
