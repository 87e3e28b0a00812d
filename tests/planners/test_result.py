"""Results: what follows from an estimate, what is worth it, and options that are refused."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from partita.errors import PlanError
from partita.planners import PlanOptions, Result, find_plan
from partita.planners.result import Estimate, describe_bound, is_worth
from tests.planners.fakes import make_chain, make_cost

_ESTIMATE = Estimate(0.4, 0.1, {}, 1.0, 2)


def _result(**changes: Any) -> Result:
    cost = make_cost(make_chain(2), 1e6, 1e6)
    return replace(find_plan(cost, planner="single"), **changes)


@pytest.mark.parametrize(("in_flight", "period_s"), [(1, 0.4), (2, 0.2), (4, 0.1), (9, 0.1)])
def test_requests_under_way_hide_the_latency_up_to_the_bottleneck(
    in_flight: int, period_s: float
) -> None:
    """The period is the latency over those under way, but never below the busiest lane."""
    estimate = replace(_ESTIMATE, in_flight=in_flight)
    assert estimate.period_s == pytest.approx(period_s)
    assert estimate.images_per_second == pytest.approx(1 / period_s)


def test_nothing_to_do_is_done_infinitely_often() -> None:
    """A network without work has no period to divide by."""
    assert Estimate(0.0, 0.0, {}, 0.0, 0).images_per_second == inf


def test_gains_within_the_error_of_predictions_are_none() -> None:
    """Five hundredths are not worth it, a little more is; what fits nowhere else always is."""
    assert not is_worth(1.05, 1.0)
    assert is_worth(1.051, 1.0)
    assert not is_worth(1.0, 2.0)
    assert is_worth(inf, 1.0)


def test_a_bound_below_a_third_says_little() -> None:
    """The third itself is still told."""
    assert describe_bound(0.31, 0.9) == "310 ms"
    assert describe_bound(0.29, 0.9) == "290 ms (a loose bound)"


def test_the_text_of_a_result_is_short() -> None:
    """Planner, status, stages and seconds; the plan itself is not in it."""
    text = repr(_result(estimate=_ESTIMATE, status="heuristic"))
    assert text == "Result('single', heuristic, 1 stages, 0.4 s)"


def test_one_device_alone_is_its_own_bound_and_not_worth_dividing() -> None:
    """With nobody to share with the plan is its own bound."""
    result = find_plan(make_cost(make_chain(2), 1e6), planner="single")
    assert result.lower_bound_s == pytest.approx(result.latency_s)
    assert (result.best_single_s, result.worth_splitting) == (result.latency_s, False)
    assert result.single == result.estimate


def test_two_devices_at_no_distance_halve_the_bound() -> None:
    """The fluid is shared by speed: a device three times as fast leaves a quarter."""
    costs = [
        make_cost(make_chain(2), *rates, bandwidth=1e15, overhead_s=0.0)
        for rates in ((1e6,), (1e6, 1e6), (1e6, 3e6))
    ]
    alone, two, four = (find_plan(cost, planner="single").lower_bound_s for cost in costs)
    assert [two, four] == pytest.approx([alone / 2, alone / 4], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "speed"}, "'speed' is unknown; allowed: latency, throughput"),
        ({"in_flight": 0}, "flight: 0, must be from 1 to 1000"),
        ({"axes": ("none",)}, "'none' is unknown; allowed: rows, tiles, output_channels"),
        ({"wires": ["t0"]}, "'wires' is a list, allowed: a mapping"),
        ({"keep_on": None}, "'keep_on' is a NoneType, allowed: a mapping"),
        ({"energy_limits": {"d1": 0.0}}, "limit of 'd1' is 0 J, must be above 0 J"),
        ({"energy_limits": {"d1": float("nan")}}, "limit of 'd1' is nan J"),
        ({"method": {"nobody.rounds": "1"}}, "'nobody' is unknown; allowed: single"),
        ({"compress": "zip"}, "'zip' is unknown; allowed: raw"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    """One line says what is wrong and what is allowed, before anything is planned."""
    with pytest.raises(PlanError, match=message) as caught:
        find_plan(make_cost(make_chain(2), 1e6, 1e6), options=PlanOptions(**options))
    assert "\n" not in caught.value.message
