"""Laws of the virtual clock: simulation is a function, and its fast form gives the same."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.execution import Durations, Report
from partita.program import Compute, Program, check_program
from partita.simulation import latency_s, simulate
from tests.laws.programs import DICE, make_durations, programs, timed_programs

Timed = tuple[Program, Durations]


@settings(max_examples=200)
@given(timed_programs())
def test_fast_latency_equals_simulation(timed: Timed) -> None:
    """The planners' latency is the simulation's, to the last bit that matters."""
    program, durations = timed
    whole = simulate(program, durations, keep_spans=False)
    assert latency_s(program, durations) == pytest.approx(whole.latencies_s[0], rel=1e-12)


@settings(max_examples=40)
@given(timed_programs(), st.integers(1, 6))
def test_simulation_is_deterministic(timed: Timed, requests: int) -> None:
    """Two simulations give the same report, span by span."""
    program, durations = timed
    first = simulate(program, durations, requests=requests)
    assert simulate(program, durations, requests=requests) == first


@settings(max_examples=60)
@given(timed_programs(), st.integers(1, 6))
def test_no_lane_does_two_things_at_once(timed: Timed, requests: int) -> None:
    """Spans of one lane do not overlap, and the busy times are their sums."""
    program, durations = timed
    report = simulate(program, durations, requests=requests)
    for lane in {(span.device, span.lane) for span in report.spans}:
        spans = [span for span in report.spans if (span.device, span.lane) == lane]
        for before, after in pairwise(spans):
            assert before.end_s <= after.start_s
    for use in report.devices:
        assert use.busy_s == pytest.approx(_busy_s(report, use.name))


def _busy_s(report: Report, device: str) -> float:
    return sum(
        span.end_s - span.start_s
        for span in report.spans
        if (span.device, span.lane) == (device, "compute")
    )


@settings(max_examples=60)
@given(programs(unread=False), DICE)
def test_latency_is_never_below_any_step(program: Program, dice: Random) -> None:
    """A request takes at least as long as its longest computation on the way to the outputs."""
    durations = make_durations(program, dice)
    report = simulate(program, durations)
    steps = {step.id: step for part in program.devices for step in part.steps}
    longest = max(
        span.end_s - span.start_s for span in report.spans if isinstance(steps[span.step], Compute)
    )
    assert report.latencies_s[0] >= longest - 1e-9


@settings(max_examples=100)
@given(programs())
def test_random_programs_have_no_faults(program: Program) -> None:
    """What runs to its end under any order of events also passes the program check."""
    assert check_program(program) == []
