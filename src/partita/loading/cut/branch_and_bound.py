"""The best divisions there are: exact, for what the methods that learn are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.loading.cut.makespan import Problem

Ends = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
#: What is better than another division by more than rounding, and what is as good.
_BETTER, _EQUAL = 1 - 1e-12, 1 + 1e-12
#: Beginnings that are looked at together.
_CHUNK = 20_000


@dataclass(frozen=True)
class DivisionResult:
    """What a method found.

    Attributes:
        method: Its name.
        ends: Numbers of blocks before which children end.
        makespan_s: Until the last child has answered, simulated.
        measured_s: From opening a bundle of it to its answer, measured; None where it was not.
        gap: How far that is above the optimum, as a fraction of it.
        policy_ends: What a method that learns says itself at the end, where it tried better.
        policy_gap: The same of those.
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
        """Seconds until the answer, as measured; simulated where it was not."""
        return self.makespan_s if self.measured_s is None else self.measured_s

    @property
    def children(self) -> int:
        """Number of children."""
        return len(self.ends)


def balance_loads(problem: Problem, count: int) -> Ends:
    """Return ends of ``count`` children the slowest of which loads as fast as can be.

    The criterion of equal load times, solved exactly by dynamic programming over the number of
    children and the block that the last of them ends with. Of equal ones, the first that ends
    earliest.

    Args:
        problem: The blocks.
        count: Children wanted.

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
    """Return the most even division of the number of children that has the least makespan.

    Raises:
        BundleError: The model cannot be divided into that many children.
    """
    problem.check_count(most_children)
    divisions = [balance_loads(problem, count) for count in _counts(problem, most_children)]
    return best_of("balanced", problem, divisions)


def _counts(problem: Problem, most_children: int) -> range:
    return range(problem.least_children, most_children + 1)


def best_of(method: str, problem: Problem, divisions: Sequence[Ends]) -> DivisionResult:
    """Return the division of least makespan; of equal ones, that of fewest children."""
    best = DivisionResult(method, (), float("inf"))
    for ends in sorted(divisions, key=len):
        makespan_s = problem.simulate(ends).makespan_s
        if makespan_s < best.makespan_s * _BETTER:
            best = DivisionResult(method, ends, makespan_s)
    return best


def find_optimum(problem: Problem, most_children: int) -> DivisionResult:
    """Return the division of least makespan into at most that many children.

    Branch and bound over the ends from left to right: a beginning is given up when no division
    that begins so can be better than the best one known. In the worst case that looks at all
    divisions; the bound is exact for whole ones, so that what is found is the optimum.

    Args:
        problem: The blocks.
        most_children: The largest number of children allowed.

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
    """Return the best division into ``count`` children where it is better than the best one known.

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


def _climb(problem: Problem, found: Ends) -> Ends:
    """Return the division after moving single ends by one for as long as that helps."""
    ends, makespan_s = list(found), problem.simulate(found).makespan_s
    better = True
    while better:
        better = False
        for place in range(len(ends) - (2 if problem.apart else 1)):
            for step in (-1, 1):
                moved = [*ends[:place], ends[place] + step, *ends[place + 1 :]]
                if not (0, *moved)[place] < moved[place] < moved[place + 1]:
                    continue
                if moved[-2] > problem.last_cut:
                    continue
                value_s = problem.simulate(moved).makespan_s
                if value_s < makespan_s * _BETTER:
                    ends, makespan_s, better = moved, value_s, True
    return tuple(ends)


def _extend(problem: Problem, heads: Places, child: int, count: int) -> Places:
    """Return every way to go on from each row by the end of one more child."""
    latest = problem.latest_end(child, count)
    before = heads[:, -1] if child else np.zeros(len(heads), np.intp)
    if problem.is_fixed(child, count):
        return np.column_stack((heads, np.full(len(heads), latest, np.intp)))
    ways = np.maximum(latest - before, 0)
    rows = np.repeat(np.arange(len(heads)), ways)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(ways) - ways, ways)
    return np.column_stack((heads[rows], before[rows] + steps + 1))


def bound_makespans(problem: Problem, heads: Places, count: int) -> Floats:
    """Return what no division into ``count`` children that begins so stays below, in s.

    Args:
        problem: The blocks.
        heads: A row per beginning: the ends of its first children. A row of all ``count`` ends is
            a division, and its bound its makespan.
        count: Children of the whole division.
    """
    known = heads.shape[1]
    zeros = np.zeros((len(heads), 1), np.intp)
    begins, end = np.concatenate((zeros, heads[:, :-1]), axis=1), heads[:, -1]
    load_sums, compute_sums = np.array(problem.load_sums), np.array(problem.compute_sums)
    loads = problem.child_load_s + load_sums[heads] - load_sums[begins]
    starts, free_s = _start(loads, problem.loaders)
    left = count - known
    rest_s = load_sums[-1] - load_sums[end] + left * problem.child_load_s
    slow = problem.contention

    def work(clocks: Floats) -> Floats:
        """Return the loading of the known children done until then."""
        done = np.zeros_like(clocks)
        for place in range(known):
            start, load = starts[:, place, None], loads[:, place, None]
            done += np.minimum(np.maximum(clocks - start, 0.0), load)
        return done

    clocks = starts + loads
    # One loader at least is busy with the others, from when it is free until all are loaded.
    others = np.minimum(np.maximum(clocks - free_s[:, None], 0.0), rest_s[:, None])
    loaded = (2 - slow) * clocks + (slow - 1) * (work(clocks) + others)
    after = compute_sums[-1] - compute_sums[begins]
    after += problem.child_run_s * (count - np.arange(known))
    floors = np.array(problem.floors)
    answered = floors[begins, heads] + compute_sums[-1] - compute_sums[heads]
    answered += problem.child_run_s * (left + known - 1 - np.arange(known))
    bounds: Floats = np.maximum(loaded + after, answered).max(axis=1)
    if not left:
        return bounds
    # The next child loads one block or more, and all the others run after it; the one that is
    # loaded last ends when all are loaded, and the last child runs after it.
    next_s = problem.child_load_s + np.array(problem.loads)[end]
    last_s = np.maximum(free_s + rest_s / left, (loads.sum(axis=1) + rest_s) / problem.loaders)
    ends = np.column_stack((free_s + next_s, last_s))
    done = work(ends) + np.column_stack((next_s, rest_s))
    loaded = max(0.0, 2 - slow) * ends + min(1.0, slow - 1) * done
    loaded[:, 0] += compute_sums[-1] - compute_sums[end] + left * problem.child_run_s
    loaded[:, 1] += compute_sums[-1] - compute_sums[problem.last_cut] + problem.child_run_s
    for other in (*loaded.T, floors[end, problem.size]):
        np.maximum(bounds, other, out=bounds)
    return bounds


def _start(loads: Floats, loaders: int) -> tuple[Floats, Floats]:
    """Return when each load starts, and when a loader is free for the next one.

    On the clock that knows no contention.
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
