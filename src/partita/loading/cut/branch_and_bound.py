"""The exact methods: the least makespan by branch and bound, the most even loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.loading.cut.makespan import Problem

Ends = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
#: What is better than another division by more than the rounding of a few hundred sums in double
#: precision, and what is as good.
_BETTER, _EQUAL = 1 - 1e-12, 1 + 1e-12
#: Below this a makespan in s is none, and nothing is divided by it.
LEAST_S = 1e-12
#: Beginnings that are bounded together: some megabytes of arrays. Not tuned.
_CHUNK = 20_000


@dataclass(frozen=True)
class DivisionResult:
    """The division that a method chose.

    Attributes:
        ends: Numbers of blocks before which children end.
        makespan_s: Seconds until the last child has answered, simulated.
        gap: How far that is above the optimum, as a fraction of it.
        policy_ends: What the values of a method that learns say at the end, where it tried better.
        policy_gap: How far those are above the optimum.
        measured_s: Seconds from opening a bundle of it to its answer; None where not measured.
    """

    method: str
    ends: Ends
    makespan_s: float
    gap: float = 0.0
    policy_ends: Ends = ()
    policy_gap: float = 0.0
    measured_s: float | None = None

    @property
    def time_s(self) -> float:
        """Seconds until the answer, as measured; simulated where they were not."""
        return self.makespan_s if self.measured_s is None else self.measured_s

    @property
    def children(self) -> int:
        """Number of children."""
        return len(self.ends)


def gap_of(makespan_s: float, optimum_s: float) -> float:
    """How far a makespan is above the optimum, as a fraction of it; rounding is no gap."""
    return round(makespan_s / max(optimum_s, LEAST_S) - 1, 9) + 0.0


def balance_loads(problem: Problem, count: int) -> Ends:
    """The ends of ``count`` children the slowest of which loads as fast as can be.

    The criterion of equal load times, solved exactly by dynamic programming over the number of
    children and the block that the last of them ends with. Of equal divisions, the one whose first
    child ends earliest.

    Raises:
        BundleError: The model cannot be divided into that many.
    """
    problem.check_count(count)
    size = problem.size
    reached = [0.0] + [float("inf")] * size
    came: list[list[int]] = []
    for child in range(count):
        fresh, back = [float("inf")] * (size + 1), [0] * (size + 1)
        last = child == count - 1
        for stop in range(size if last else child + 1, problem.latest_end(child, count) + 1):
            earliest = problem.last_cut if last and problem.apart else child
            for start in range(earliest, min(stop, problem.last_cut + 1 if last else stop)):
                slowest = max(reached[start], problem.load_s(start, stop))
                if slowest < fresh[stop]:
                    fresh[stop], back[stop] = slowest, start
        came.append(back)
        reached = fresh
    ends = [size]
    for back in reversed(came[1:]):
        ends.append(back[ends[-1]])
    return tuple(reversed(ends))


def find_balanced(problem: Problem, most_children: int) -> DivisionResult:
    """The most even division, into the number of children that gives it the least makespan.

    Raises:
        BundleError: The model cannot be divided into that many children.
    """
    problem.check_count(most_children)
    divisions = [balance_loads(problem, count) for count in _counts(problem, most_children)]
    return best_of("balanced", problem, divisions)


def _counts(problem: Problem, most_children: int) -> range:
    return range(problem.least_children, most_children + 1)


def best_of(method: str, problem: Problem, divisions: Sequence[Ends]) -> DivisionResult:
    """The division of least makespan; of equal ones, that of fewest children."""
    best = DivisionResult(method, (), float("inf"))
    for ends in sorted(divisions, key=len):
        makespan_s = problem.simulate(ends).makespan_s
        if makespan_s < best.makespan_s * _BETTER:
            best = DivisionResult(method, ends, makespan_s)
    return best


def find_optimum(problem: Problem, most_children: int) -> DivisionResult:
    """The division of least makespan into at most that many children.

    Branch and bound over the ends from left to right: a beginning is given up when no division
    that begins so can be better than the best one known. In the worst case that looks at all
    divisions; the bound is exact for whole ones, so that the last one known is the optimum.

    Raises:
        BundleError: The model cannot be divided into that many children.
    """
    problem.check_count(most_children)
    starts = [balance_loads(problem, count) for count in _counts(problem, most_children)]
    best = best_of("optimum", problem, [_climb(problem, ends) for ends in starts])
    for count in _counts(problem, most_children):
        best = _search(problem, count, best)
    return best


def _search(problem: Problem, count: int, best: DivisionResult) -> DivisionResult:
    """The best division into ``count`` children, or ``best`` where none is better.

    Of equally good ones that of fewest children is wanted.
    """
    stack = [np.zeros((1, 0), np.intp)]
    while stack:
        heads = stack.pop()
        heads = _extend(problem, heads, heads.shape[1], count)
        bounds = bound_makespans(problem, heads, count)
        enough_s = best.makespan_s * (_EQUAL if count < best.children else _BETTER)
        kept = bounds < enough_s
        heads, bounds = heads[kept], bounds[kept]
        if not len(heads):
            continue
        if heads.shape[1] == count:
            ends = tuple(int(end) for end in heads[bounds.argmin()])
            best = DivisionResult("optimum", ends, problem.simulate(ends).makespan_s)
            continue
        # Worst first, so that the most promising are looked at next.
        heads = heads[np.argsort(-bounds, kind="stable")]
        stack += [heads[at : at + _CHUNK] for at in range(0, len(heads), _CHUNK)]
    return best


def _climb(problem: Problem, start: Ends) -> Ends:
    """The division after moving single ends by one for as long as that helps."""
    ends, makespan_s = list(start), problem.simulate(start).makespan_s
    is_better = True
    while is_better:
        is_better = False
        for place in range(len(ends) - (2 if problem.apart else 1)):
            for step in (-1, 1):
                moved = [*ends[:place], ends[place] + step, *ends[place + 1 :]]
                if not (0, *moved)[place] < moved[place] < moved[place + 1]:
                    continue
                if moved[-2] > problem.last_cut:
                    continue
                value_s = problem.simulate(moved).makespan_s
                if value_s < makespan_s * _BETTER:
                    ends, makespan_s, is_better = moved, value_s, True
    return tuple(ends)


def _extend(problem: Problem, heads: Places, child: int, count: int) -> Places:
    """Each row once for every end that the next child can have, with that end."""
    latest = problem.latest_end(child, count)
    before = heads[:, -1] if child else np.zeros(len(heads), np.intp)
    if problem.is_fixed(child, count):
        return np.column_stack((heads, np.full(len(heads), latest, np.intp)))
    choices = np.maximum(latest - before, 0)
    rows = np.repeat(np.arange(len(heads)), choices)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(choices) - choices, choices)
    return np.column_stack((heads[rows], before[rows] + steps + 1))


def bound_makespans(problem: Problem, heads: Places, count: int) -> Floats:
    """The seconds that no division into ``count`` children that begins so stays below.

    Why: on the clock ``u`` without contention every child starts as soon as a loader is free, and
    the true time is ``t(u) = (2 - c) u + (c - 1) W(u)``, ``W(u)`` being the loading done until then
    (:func:`~partita.loading.cut.makespan.simulate_children`). ``t`` rises with ``u``, and with
    ``W`` since ``c >= 1``. Unrolled, the makespan is the largest, over all children, of two terms:
    when the child is loaded, plus its run and all later ones; and the child's floor, plus all later
    runs. So each of these terms, or less than it, is a bound, and so is the largest of them.

    Known children start and end on ``u`` whatever follows, as loaders take children in order. What
    the others load in all, ``rest``, is known, too, and from when a loader is free of known ones
    until it is done, at least one loader is busy with it: ``W`` of the others is at least
    ``min(u - free, rest)``. Nothing else is put low, and of a whole division ``rest`` is 0: there
    the bound is the makespan. What the others add is said at :func:`_bound_others`.

    Args:
        heads: (beginnings, known): the ends of the first children of each. A row of all ``count``
            ends is a division, and its bound its makespan.
        count: Children of the whole division.

    Returns:
        Seconds per beginning.
    """
    known = heads.shape[1]
    begins = np.concatenate((np.zeros((len(heads), 1), np.intp), heads[:, :-1]), axis=1)
    load_sums, compute_sums = np.array(problem.load_sums), np.array(problem.compute_sums)
    loads = problem.child_load_s + load_sums[heads] - load_sums[begins]
    starts, free_s = _start(loads, problem.loaders)
    rest_s = load_sums[-1] - load_sums[heads[:, -1]] + (count - known) * problem.child_load_s
    clocks = starts + loads
    others = np.minimum(np.maximum(clocks - free_s[:, None], 0.0), rest_s[:, None])
    slow = problem.contention
    loaded = (2 - slow) * clocks + (slow - 1) * (_work(starts, loads, clocks) + others)
    runs_after = compute_sums[-1] - compute_sums[heads]
    runs_after += problem.child_run_s * (count - 1 - np.arange(known))
    run = problem.child_run_s + compute_sums[heads] - compute_sums[begins]
    floors = np.array(problem.floors)[begins, heads]
    bounds: Floats = (np.maximum(loaded + run, floors) + runs_after).max(axis=1)
    if known < count:
        others_s = _bound_others(problem, heads[:, -1], count - known, (starts, loads, free_s))
        bounds = np.maximum(bounds, others_s)
    return bounds


def _bound_others(
    problem: Problem, ends: Places, left: int, known: tuple[Floats, Floats, Floats]
) -> Floats:
    """The seconds that follow from the ``left`` children after the known ones, the larger of three.

    The next child starts just when a loader is free, and has a block at least: it is loaded no
    sooner than ``t(free + next)``, by when ``W`` has ``next`` of its own, and all others run after.

    The child that is loaded last ends when all are loaded. On ``u`` that is no sooner than
    ``last``: the longest of the others takes ``rest / left`` or more, none starts before ``free``,
    and the loaders share all loads. ``W`` then is all loads. The last child runs after it, and
    begins with block ``last_cut`` at the latest.

    Where ``c > 2``, ``u`` has a negative factor, and ``last`` bounds it from the wrong side; there
    ``t(u) = W + (c - 2) (W - u) >= W`` serves, as a loader at least is busy all the time.

    A block runs when its weights are there, and all blocks after it later.
    """
    starts, loads, free_s = known
    load_sums, compute_sums = np.array(problem.load_sums), np.array(problem.compute_sums)
    rest_s = load_sums[-1] - load_sums[ends] + left * problem.child_load_s
    next_s = problem.child_load_s + np.array(problem.loads)[ends]
    last_s = np.maximum(free_s + rest_s / left, (loads.sum(axis=1) + rest_s) / problem.loaders)
    clocks = np.column_stack((free_s + next_s, last_s))
    done = _work(starts, loads, clocks) + np.column_stack((next_s, rest_s))
    slow = problem.contention
    loaded = max(0.0, 2 - slow) * clocks + min(1.0, slow - 1) * done
    next_answer = loaded[:, 0] + compute_sums[-1] - compute_sums[ends] + left * problem.child_run_s
    last_run_s = compute_sums[-1] - compute_sums[problem.last_cut] + problem.child_run_s
    floors = np.array(problem.floors)[ends, problem.size]
    bounds: Floats = np.maximum.reduce([next_answer, loaded[:, 1] + last_run_s, floors])
    return bounds


def _work(starts: Floats, loads: Floats, clocks: Floats) -> Floats:
    """The loading of known children that is done until each of (beginnings, any) clocks, in s."""
    done = np.zeros_like(clocks)
    for place in range(loads.shape[1]):
        elapsed_s = np.maximum(clocks - starts[:, place, None], 0.0)
        done += np.minimum(elapsed_s, loads[:, place, None])
    return done


def _start(loads: Floats, loaders: int) -> tuple[Floats, Floats]:
    """When each load starts, (beginnings, known), and when a loader is free for the next one.

    In seconds on the clock without contention.
    """
    rows, known = loads.shape
    starts = np.zeros_like(loads)
    if loaders > known:
        return starts, np.zeros(rows)
    free = np.zeros((rows, loaders))
    every = np.arange(rows)
    for place in range(known):
        first = free.argmin(axis=1)
        starts[:, place] = free[every, first]
        free[every, first] += loads[:, place]
    return starts, free.min(axis=1)
