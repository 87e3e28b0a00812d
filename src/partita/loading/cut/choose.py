"""Where to cut: the methods behind one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from partita.errors import BundleError
from partita.loading.bundle.manifest import check_count
from partita.loading.cut.blocks import BlockProfile
from partita.loading.cut.branch_and_bound import DivisionResult, find_balanced, find_optimum
from partita.loading.cut.makespan import Problem
from partita.loading.cut.qlearning import LearnOptions, Measure, learn_division

if TYPE_CHECKING:
    from partita.loading.cut.trial_loads import TrialLoads

Method = Literal["best", "qlearning", "sarsa", "optimum", "balanced"]
#: Children that are thought of where a machine has few threads.
_LEAST_MOST = 8
#: More children must be faster by so much: less is noise, and later answers take longer with them.
ABOUT_AS_SOON = 1.1
_LEARNING = ("best", "qlearning", "sarsa")


@dataclass(frozen=True)
class Choice:
    """Where to cut a model, and why.

    Attributes:
        ends: Numbers of layers before which children end.
        chosen: What the method found, its ends in blocks.
        found: What each method found, the chosen one first.
        gain: How much longer the second of them takes, as a fraction; 0 where there is one only.
        whole_s: Makespan of the model as one child.
        speedup_bound: Time to load all children after each other, over that of the largest.
        prepack: Whether weights should be rearranged while they load: where that was tried, and
            answered sooner by more than noise.
    """

    ends: tuple[int, ...]
    chosen: DivisionResult
    found: tuple[DivisionResult, ...]
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
    tryout: TrialLoads | None = None,
    real_rewards: bool = False,
) -> Choice:
    """Return where to cut a model, by the time until the last child has answered.

    Args:
        profile: The blocks as measured.
        method: ``optimum`` is exact; ``qlearning`` and ``sarsa`` learn; ``balanced`` has load times
            as equal as can be; ``best`` takes the better of Q-learning and the optimum.
        loaders: Children that load at the same time.
        cold: Whether weights are read from disk; else they are in the page cache.
        prepack: Whether weights are rearranged while they load.
        mapped: Whether weights are mapped and read ahead, as bundles do; else loading includes
            reading them.
        most_children: The largest number of children; by default 8, or twice the processor's
            threads, or what the model can be divided into.
        seed: Of what is drawn.
        tryout: Really loads what each method found, and the model as one child: the fastest of
            them is chosen, of those within the noise the one of fewest children. By default all
            times are simulated.
        real_rewards: Whether what learns is rewarded for children that ``tryout`` really loads.

    Raises:
        BundleError: The method is unknown, the model cannot be divided into so many, or the tryout
            tries something else.
    """
    check_method(method)
    check_count("Loaders", loaders)
    _check_tryout(tryout, profile, (loaders, cold), method if real_rewards else None)
    problem = Problem.of(profile, loaders=loaders, cold=cold, prepack=prepack, mapped=mapped)
    if most_children is None:
        usual = max(_LEAST_MOST, 2 * (os.cpu_count() or 1))
        most_children = min(usual, problem.most_children)
    measure = tryout.load_s if tryout is not None and real_rewards else None
    answers = _ask(problem, method, most_children, seed, measure)
    return _conclude(profile, problem, answers, tryout)


def _check_tryout(
    tryout: TrialLoads | None, profile: BlockProfile, told: tuple[int, bool], rewards: Method | None
) -> None:
    loaders, cold = told
    if tryout is not None:
        tryout.check(profile, loaders, cold=cold)
    if rewards is not None and (tryout is None or rewards not in _LEARNING):
        raise BundleError(
            f"Real rewards need a tryout and a method that learns: {', '.join(_LEARNING)}."
        )


def _conclude(
    profile: BlockProfile,
    problem: Problem,
    answers: list[DivisionResult],
    tryout: TrialLoads | None,
) -> Choice:
    whole_s = problem.simulate((problem.size,)).makespan_s
    prepack = False
    if tryout is None:
        found = tuple(sorted(answers, key=lambda one: (one.makespan_s, one.children)))
    else:
        found = _try([*answers, _find_fewest(problem, answers[0])], tryout)
        (prepacked_s,) = tryout.answer_s([found[0].ends], prepack=True)
        prepack = prepacked_s * ABOUT_AS_SOON < found[0].time_s
    chosen, second = found[0], found[min(1, len(found) - 1)]
    return Choice(
        ends=profile.layer_ends(chosen.ends),
        chosen=chosen,
        found=found,
        gain=second.time_s / max(chosen.time_s, 1e-12) - 1,
        whole_s=whole_s,
        speedup_bound=problem.simulate(chosen.ends).speedup_bound,
        prepack=prepack,
    )


def _find_fewest(problem: Problem, known: DivisionResult) -> DivisionResult:
    """Return the model as one child, or as two where the trainable layers are one of their own."""
    ends = (problem.last_cut, problem.size) if problem.apart else (problem.size,)
    makespan_s = problem.simulate(ends).makespan_s
    optimum_s = known.makespan_s / (1 + known.gap)
    gap = max(0.0, makespan_s / max(optimum_s, 1e-12) - 1)
    return DivisionResult(
        "trainable apart" if problem.apart else "one child", ends, makespan_s, gap
    )


def check_method(method: str) -> None:
    """Return when there is such a method.

    Raises:
        BundleError: There is none.
    """
    if method not in get_args(Method):
        allowed = ", ".join(get_args(Method))
        raise BundleError(f"Method '{method}' is unknown; allowed: {allowed}.", subject=method)


def _try(answers: Sequence[DivisionResult], tryout: TrialLoads) -> tuple[DivisionResult, ...]:
    """Return what is really loaded, the best first: the fewest children of those about as fast."""
    unique = list(dict.fromkeys(one.ends for one in answers))
    times = dict(zip(unique, tryout.answer_s(unique), strict=True))
    answers = [replace(one, measured_s=times[one.ends]) for one in answers]
    least = min(one.time_s for one in answers)

    def key(one: DivisionResult) -> tuple[bool, float, float]:
        is_slower = one.time_s > least * ABOUT_AS_SOON
        return is_slower, one.time_s if is_slower else one.children, one.time_s

    return tuple(sorted(answers, key=key))


def _ask(
    problem: Problem, method: Method, most_children: int, seed: int, measure: Measure | None
) -> list[DivisionResult]:
    """Return what the method finds; ``best`` is two methods."""
    if method in ("qlearning", "sarsa"):
        options = LearnOptions(method, seed=seed)
        return [learn_division(problem, most_children, options, measure=measure)]
    optimum = find_optimum(problem, most_children)
    if method == "balanced":
        found = find_balanced(problem, most_children)
        return [replace(found, gap=found.makespan_s / max(optimum.makespan_s, 1e-12) - 1)]
    if method == "best":
        options = LearnOptions("qlearning", seed=seed)
        learned = learn_division(problem, most_children, options, measure=measure)
        return [optimum, learned]
    return [optimum]
