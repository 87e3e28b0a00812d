"""What ``partita plan`` says of a plan: gains within the error of predictions are none."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from partita.cli.actions.plan import describe_verdict
from partita.planners import PlanOptions, Result, find_plan
from tests.planners.fakes import make_chain, make_cost


@pytest.fixture(scope="module")
def divided() -> Result:
    """A plan that is much faster than the best single device."""
    return find_plan(make_cost(make_chain(3, seed=2), 1e7, 1e7, bandwidth=1e9, overhead_s=0.0))


def _judge(divided: Result, gain: float, *, worth: bool) -> str:
    """Return the line about splitting where the single device takes ``gain`` times as long."""
    assert divided.single is not None
    single = replace(divided.single, latency_s=gain * divided.latency_s)
    result = replace(divided, single=single, worth_splitting=worth)
    return describe_verdict(result)[-1]


def _line(result: Result, about: str) -> str:
    return next(line for line in describe_verdict(result) if line.startswith(about))


def test_gains_within_the_error_of_predictions_are_no_real_difference(divided: Result) -> None:
    """A plan 3 % ahead is none to buy devices for; one 20 % ahead is, one behind never."""
    assert "no real difference, 1.03x faster than" in _judge(divided, 1.03, worth=False)
    assert "worth it, 1.20x faster than" in _judge(divided, 1.2, worth=True)
    assert "not worth it, the best single device" in _judge(divided, 0.99, worth=False)


@pytest.mark.parametrize(("part", "loose"), [(0.3, True), (0.4, False)])
def test_a_bound_under_a_third_is_called_loose(divided: Result, part: float, loose: bool) -> None:
    """A lower bound far below the plan is no measure of it, and the reply says so."""
    result = replace(divided, lower_bound_s=part * divided.latency_s)
    assert ("(a loose bound)" in _line(result, "Latency")) == loose


def test_what_was_not_proven_is_not_said(divided: Result) -> None:
    """A bound of nothing bounds nothing: the sentence ends before it."""
    assert "no plan can do better" in _line(divided, "Latency")
    assert "better" not in _line(replace(divided, lower_bound_s=0.0), "Latency")


def test_rates_and_latencies_say_which_they_are() -> None:
    """With requests under way one alone is faster, and the long run has neither start nor end."""
    cost = make_cost(make_chain(3, seed=2), 1e7, 1e7, bandwidth=1e9, overhead_s=0.0)
    assert "alone" not in _line(find_plan(cost), "Latency")
    busy = find_plan(cost, options=PlanOptions(objective="throughput", in_flight=4))
    assert "predicted of a request alone, no plan" in _line(busy, "Latency")
    rate = _line(busy, "Throughput")
    assert "per second predicted in the long run with 4 in flight" in rate
    unbounded = _line(replace(busy, least_period_s=0.0), "Throughput")  # as in a spent budget
    assert unbounded.endswith("4 in flight, no bound is known")


def test_a_planner_that_divides_nothing_does_not_judge_splitting() -> None:
    """Whether splitting is worth it, or needed, it has not looked at."""
    cost = make_cost(make_chain(3, seed=2), 1e7, 1e7, bandwidth=1e9, overhead_s=0.0)
    line = _line(find_plan(cost, planner="single"), "Splitting")
    assert "not looked at by planner 'single', whose device takes" in line


def test_one_device_that_is_faster_by_its_bits_is_no_splitting() -> None:
    """What a plan of one device gains over that device is not called a division's gain."""
    alone = find_plan(make_cost(make_chain(3, seed=2), 1e7), planner="single")
    assert alone.single is not None
    slower = replace(alone.single, latency_s=1.5 * alone.latency_s)
    plan = msgspec.structs.replace(alone.plan, planner="autosplit")
    line = _line(replace(alone, plan=plan, single=slower, worth_splitting=True), "Splitting")
    assert "none, one device computes all: 1.50x faster than" in line
