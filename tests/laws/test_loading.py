"""Laws of loading: the closed form of the makespan is the simulation of the bundle's program."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from partita.execution import Durations
from partita.graph import Graph
from partita.loading.cut.branch_and_bound import bound_makespans
from partita.loading.cut.makespan import ChildTimes, LoadTimes, Problem, simulate_children
from partita.loading.write.child_models import cut_children
from partita.program import Compute, Load, Program
from partita.simulation import simulate
from tests.cost.fakes import conv_graph, skip_graph
from tests.loading.cut.drawn import all_divisions, problems

Ends = tuple[int, ...]
LAW = settings(max_examples=100, deadline=None)
#: Sums of eighths are exact, so that equal means equal.
EIGHTHS = st.integers(0, 80).map(lambda number: number / 8)


@cache
def _chain(layers: int) -> Graph:
    return conv_graph(layers=layers)


@cache
def _program(layers: int, ends: Ends) -> Program:
    """The bundle's program; three layers have a skip connection around the second."""
    graph = skip_graph() if layers == 3 else _chain(layers)
    return cut_children(graph, ends).program


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Problem, Ends]:
    """Blocks of a layer each, without contention, and a division of them."""
    loads = draw(st.lists(EIGHTHS, min_size=1, max_size=7))
    computes = draw(st.lists(EIGHTHS, min_size=len(loads), max_size=len(loads)))
    inner = draw(st.sets(st.integers(1, len(loads) - 1))) if len(loads) > 1 else set()
    problem = Problem(
        loads=tuple(loads),
        computes=tuple(computes),
        child_load_s=draw(EIGHTHS),
        child_run_s=draw(EIGHTHS),
        loaders=draw(st.integers(1, 8)),
    )
    return problem, (*sorted(inner), len(loads))


def _simulated(problem: Problem, ends: Ends) -> list[ChildTimes]:
    """When each child loads and computes in the simulation of the state machine."""
    program = _program(problem.size, ends)
    pairs = list(zip((0, *ends[:-1]), ends, strict=True))
    steps = {step.id: step for step in program.devices[0].steps}
    load_s = {
        number: problem.load_s(*pairs[step.fragment])
        for number, step in steps.items()
        if isinstance(step, Load)
    }
    compute_s = {
        number: problem.compute_s(*pairs[step.fragment])
        for number, step in steps.items()
        if isinstance(step, Compute)
    }
    report = simulate(
        program,
        Durations(compute_s, load_s=load_s),
        cold=True,
        loaders=problem.loaders,
    )
    spans = {
        (step.fragment, type(step)): (span.start_s, span.end_s)
        for span in report.spans
        if isinstance(step := steps[span.step], Load | Compute)
    }
    assert report.makespan_s == spans[len(ends) - 1, Compute][1]
    return [ChildTimes(*spans[n, Load], *spans[n, Compute]) for n in range(len(ends))]


def _closed_form(
    problem: Problem, ends: Ends, form: Callable[..., LoadTimes] = simulate_children
) -> list[ChildTimes]:
    pairs = list(zip((0, *ends[:-1]), ends, strict=True))
    times = form(
        [problem.load_s(*pair) for pair in pairs],
        [problem.compute_s(*pair) for pair in pairs],
        loaders=problem.loaders,
        contention=1.0,
    )
    return list(times.children)


@LAW
@given(divisions())
def test_the_makespan_is_that_of_the_program(division: tuple[Problem, Ends]) -> None:
    """Every child loads and computes just when the simulated state machine says so."""
    problem, ends = division
    assert _closed_form(problem, ends) == _simulated(problem, ends)
    assert problem.simulate(ends).makespan_s == _simulated(problem, ends)[-1].compute_end_s


def _largest_first(
    loads: Sequence[float], computes: Sequence[float], *, loaders: int, contention: float
) -> LoadTimes:
    """Fault: loaders take the largest child that is left, not the next one."""
    free = [0.0] * loaders
    begun = {}
    for child in sorted(range(len(loads)), key=lambda child: -loads[child]):
        begun[child] = heapq.heappop(free)
        heapq.heappush(free, begun[child] + loads[child])
    children, answered = [], 0.0
    for child, compute in enumerate(computes):
        loaded = begun[child] + loads[child]
        start, answered = max(loaded, answered), max(loaded, answered) + compute
        children.append(ChildTimes(begun[child], loaded, start, answered))
    return LoadTimes(tuple(children), answered, 1.0)


def _nobody_waits(
    loads: Sequence[float], computes: Sequence[float], *, loaders: int, contention: float
) -> LoadTimes:
    """Fault: a child computes as soon as it is loaded, whether or not the one before answered."""
    times = simulate_children(loads, computes, loaders=loaders, contention=contention)
    children = tuple(
        ChildTimes(one.load_start_s, one.load_end_s, one.load_end_s, one.load_end_s + compute)
        for one, compute in zip(times.children, computes, strict=True)
    )
    return LoadTimes(children, children[-1].compute_end_s, 1.0)


@pytest.mark.parametrize("form", [_largest_first, _nobody_waits])
def test_the_law_sees_a_fault(form: Callable[..., LoadTimes]) -> None:
    """Either fault is seen within the examples that the law draws."""
    find(
        divisions(),
        lambda division: _closed_form(*division, form) != _simulated(*division),
        settings=LAW,
    )


@settings(LAW, max_examples=300)
@given(problems(), st.data())
def test_no_completion_is_below_its_bound(problem: Problem, data: st.DataObject) -> None:
    """The bound of a beginning is at most the least makespan of all divisions that begin so.

    Of a whole division it is the makespan.
    """
    count = data.draw(st.integers(problem.least_children, problem.most_children))
    every = [ends for ends in all_divisions(problem, count) if len(ends) == count]
    makespans = {ends: problem.simulate(ends).makespan_s for ends in every}
    for known in range(1, count + 1):
        heads = sorted({ends[:known] for ends in every})
        bounds = bound_makespans(problem, np.array(heads), count)
        for head, bound in zip(heads, bounds, strict=True):
            least_s = min(makespans[ends] for ends in every if ends[:known] == head)
            assert bound <= least_s * (1 + 1e-12)
            assert known < count or bound == pytest.approx(least_s)
