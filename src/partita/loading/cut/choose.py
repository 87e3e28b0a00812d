"""Where to cut: the methods behind one call, and what the machine itself says of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from partita.errors import BundleError
from partita.loading.bundle.manifest import check_count
from partita.loading.cut.blocks import BlockProfile
from partita.loading.cut.branch_and_bound import (
    LEAST_S,
    DivisionResult,
    find_balanced,
    find_optimum,
    gap_of,
)
from partita.loading.cut.makespan import Problem
from partita.loading.cut.qlearning import LearnOptions, Measure, learn_division

if TYPE_CHECKING:
    from partita.loading.cut.trial_loads import TrialLoads

Method = Literal["best", "optimum", "balanced", "qlearning", "sarsa"]
#: Children that are thought of where a machine has few threads. Not tuned: the optima of the six
#: models of the paper on fast loading mostly have two.
_LEAST_MOST = 8
#: More children must be faster by so much: repeated runs on a shared machine with two cores differ
#: by about as much, and later answers take longer with more children.
ABOUT_AS_SOON = 1.1
_LEARNING = ("qlearning", "sarsa")


@dataclass(frozen=True)
class Choice:
    """Where to cut a model, and why.

    Attributes:
        ends: Numbers of layers before which children end.
        chosen: The method's division, its ends in blocks.
        results: Of each method, the chosen one first.
        gain: How much longer the second of them takes, as a fraction; 0 where there is one only.
        whole_s: Makespan of the model as one child.
        speedup_bound: Time to load all children after each other, over that of the largest.
        prepack: Whether weights should be prepacked at load: where that was tried, and answered
            sooner by more than noise.
    """

    ends: tuple[int, ...]
    chosen: DivisionResult
    results: tuple[DivisionResult, ...]
    gain: float
    whole_s: float
    speedup_bound: float
    prepack: bool = False


def choose_division(
    profile: BlockProfile,
    *,
    method: Method = "best",
    loaders: int,
    cold: bool = False,
    prepack: bool = False,
    mapped: bool = True,
    most_children: int | None = None,
    seed: int = 0,
    trial_loads: TrialLoads | None = None,
    real_rewards: bool = False,
) -> Choice:
    """Where to cut a model, by the time until the last child has answered.

    Args:
        method: ``optimum`` has the least makespan, ``balanced`` load times as equal as can be, both
            exactly; ``best`` is both, the optimum where nothing is really loaded. ``qlearning``
            and ``sarsa`` learn, as the paper on fast loading does: never better than ``optimum``.
        loaders: Children that load at the same time.
        cold: Whether weights are read from disk; else they are in the page cache.
        mapped: Whether weights are mapped and read ahead, as bundles do; else loading includes
            reading them.
        most_children: The largest number of children; by default 8, or twice the processor's
            threads, or what the model can be divided into.
        trial_loads: Really loads each method's division, and the model as one child: the fastest of
            them is chosen, of those within the noise the one of fewest children. By default all
            times are simulated.
        real_rewards: Whether what learns is rewarded for children that ``trial_loads`` really
            loads.

    Raises:
        BundleError: The method is unknown, the model cannot be divided into so many children, or
            ``trial_loads`` tries something else.
    """
    check_method(method)
    check_count("Loaders", loaders)
    if trial_loads is not None:
        trial_loads.check(profile, loaders, cold=cold)
    problem = Problem.of(profile, loaders=loaders, cold=cold, prepack=prepack, mapped=mapped)
    if most_children is None:
        usual = max(_LEAST_MOST, 2 * (os.cpu_count() or 1))
        most_children = min(usual, problem.most_children)
    measure = _rewards(method, trial_loads) if real_rewards else None
    results = _solve(problem, method, most_children, seed, measure)
    return _conclude(profile, problem, results, trial_loads)


def _rewards(method: Method, trial_loads: TrialLoads | None) -> Measure:
    if trial_loads is None or method not in _LEARNING:
        raise BundleError(
            f"Real rewards need trial loads and a method that learns: {', '.join(_LEARNING)}."
        )
    return trial_loads.load_s


def check_method(method: str) -> None:
    """Raise unless there is such a method.

    Raises:
        BundleError: There is none.
    """
    if method not in get_args(Method):
        allowed = ", ".join(get_args(Method))
        raise BundleError(f"Method '{method}' is unknown; allowed: {allowed}.", subject=method)


def _solve(
    problem: Problem, method: Method, most_children: int, seed: int, measure: Measure | None
) -> list[DivisionResult]:
    """The method's division; ``best`` is two methods."""
    if method == "qlearning" or method == "sarsa":
        options = LearnOptions(method, seed=seed)
        return [learn_division(problem, most_children, options, measure=measure)]
    optimum = find_optimum(problem, most_children)
    if method == "optimum":
        return [optimum]
    balanced = find_balanced(problem, most_children)
    balanced = replace(balanced, gap=gap_of(balanced.makespan_s, optimum.makespan_s))
    return [optimum, balanced] if method == "best" else [balanced]


def _conclude(
    profile: BlockProfile,
    problem: Problem,
    results: list[DivisionResult],
    trial_loads: TrialLoads | None,
) -> Choice:
    prepack = False
    if trial_loads is None:
        ranked = sorted(results, key=lambda result: (result.makespan_s, result.children))
    else:
        ranked = _load([*results, _fewest(problem, results[0])], trial_loads)
        (prepacked_s,) = trial_loads.answer_s([ranked[0].ends], prepack=True)
        prepack = prepacked_s * ABOUT_AS_SOON < ranked[0].time_s
    chosen, second = ranked[0], ranked[min(1, len(ranked) - 1)]
    return Choice(
        ends=profile.layer_ends(chosen.ends),
        chosen=chosen,
        results=tuple(ranked),
        gain=second.time_s / max(chosen.time_s, LEAST_S) - 1,
        whole_s=problem.simulate((problem.size,)).makespan_s,
        speedup_bound=problem.simulate(chosen.ends).speedup_bound,
        prepack=prepack,
    )


def _fewest(problem: Problem, known: DivisionResult) -> DivisionResult:
    """The model as one child, or as two where the trainable layers are one of their own."""
    ends = (problem.last_cut, problem.size) if problem.apart else (problem.size,)
    makespan_s = problem.simulate(ends).makespan_s
    gap = max(0.0, gap_of(makespan_s, known.makespan_s / (1 + known.gap)))
    return DivisionResult(
        "trainable apart" if problem.apart else "one child", ends, makespan_s, gap
    )


def _load(results: Sequence[DivisionResult], trial_loads: TrialLoads) -> list[DivisionResult]:
    """The divisions really loaded, best first: the fewest children of those about as fast."""
    unique = list(dict.fromkeys(result.ends for result in results))
    times = dict(zip(unique, trial_loads.answer_s(unique), strict=True))
    measured = [replace(result, measured_s=times[result.ends]) for result in results]
    least_s = min(result.time_s for result in measured)

    def key(result: DivisionResult) -> tuple[bool, float, float]:
        is_slower = result.time_s > least_s * ABOUT_AS_SOON
        return is_slower, result.time_s if is_slower else result.children, result.time_s

    return sorted(measured, key=key)
