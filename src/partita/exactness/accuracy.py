"""How accurate a plan is beside the network as it is, from what a judge answers.

Sources: AUTO-SPLIT, section 3, asks for a drop of accuracy that users bear in place of a bound on
errors. Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial
proportions based on paired data" (2012), for scores that are right or wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from partita.errors import PartitaError, PlanError, name_error
from partita.plan import Plan

#: What a judge answers: an accuracy, or a score for each sample, whose mean is the accuracy.
Scores = float | Sequence[float]
Judge = Callable[[Plan], Scores]
#: Of the interval of a drop, both sides.
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a plan, and how far it is below that of the network as it is.

    Attributes:
        value: The mean score.
        drop: The part of the network's accuracy that is lost; below 0 where the plan has more.
        interval: Of the drop, at 95 %: both were scored on the same samples. None where the scores
            of single samples are not known.
        samples: How many were scored; 0 where that is not known.
    """

    value: float
    drop: float = 0.0
    interval: tuple[float, float] | None = None
    samples: int = 0


def measure_accuracy(judge: Judge, plan: Plan, reference: Plan) -> Accuracy:
    """The accuracy of a plan beside that of the network as it is.

    Args:
        reference: A plan without bits and without lossy transfers.

    Raises:
        PlanError: The judge fails, or answers no number, or 0 for the network as it is.
    """
    return compare_scores(ask_judge(judge, plan), ask_judge(judge, reference))


def take_as_it_is(whole: npt.NDArray[np.float64]) -> Accuracy:
    """The accuracy of the network as it is, of which nothing is lost."""
    samples = whole.size if whole.ndim else 0
    return Accuracy(float(whole.mean()), 0.0, (0.0, 0.0), samples)


def ask_judge(judge: Judge, plan: Plan) -> npt.NDArray[np.float64]:
    """What a judge says of a plan: of shape () an accuracy, of shape (samples,) scores.

    What it prints is on stderr: stdout is the command's.

    Raises:
        PlanError: The judge fails, or answers anything else than finite numbers.
    """
    try:
        with redirect_stdout(sys.stderr):
            answer = judge(plan)
    except PartitaError:
        raise
    except (Exception, SystemExit) as error:  # It is the user's own function.
        raise PlanError(f"The judge of plans failed: {name_error(error)}.") from error
    try:
        given = np.asarray(answer)
        # Text would be read as numbers, and one yes or no as an accuracy of 1 or 0.
        is_other = given.dtype.kind in "US" or (given.dtype.kind == "b" and not given.ndim)
        scores = np.array(np.nan) if is_other else np.asarray(answer, np.float64)
    except (TypeError, ValueError):
        scores = np.array(np.nan)
    if scores.ndim > 1 or not scores.size or not np.isfinite(scores).all():
        shown = repr(answer)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        raise PlanError(
            f"The judge of plans answered {shown}, allowed: a finite number, or one per sample."
        )
    return scores


def compare_scores(scores: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> Accuracy:
    """The accuracy that scores mean, beside the network's.

    Args:
        whole: The network's as it is, of the same samples in the same order.

    Raises:
        PlanError: The network as it is has an accuracy of 0 or below.
    """
    value, reference = float(scores.mean()), float(whole.mean())
    if reference <= 0:
        raise PlanError(
            f"The judge of plans gives the network as it is {reference:g}, allowed: more than 0, or"
            " nothing can be lost."
        )
    drop = (reference - value) / reference
    if not scores.ndim or scores.shape != whole.shape:
        return Accuracy(value, drop, samples=scores.size if scores.ndim else 0)
    low, high = (end / reference for end in _interval(whole - scores))
    if (scores >= 0).all():  # then no more than all can be lost
        high = min(high, 1.0)
    return Accuracy(value, drop, (low, high), scores.size)


def _interval(lost: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The interval of the mean of what samples lost.

    What is right or wrong is counted as if one sample more had been lost, and one more gained: few
    samples without a difference say little.
    """
    from scipy.special import ndtri, stdtrit  # reports hold accuracies, and need no SciPy

    if np.isin(lost, (-1.0, 0.0, 1.0)).all():
        lost = np.append(lost, (1.0, -1.0))
        half = float(ndtri((1 + _CONFIDENCE) / 2)) * sqrt(lost.var() / lost.size)
    elif lost.size < 2:
        return -np.inf, np.inf
    else:
        spread = sqrt(lost.var(ddof=1) / lost.size)
        half = float(stdtrit(lost.size - 1, (1 + _CONFIDENCE) / 2)) * spread
    return float(lost.mean()) - half, float(lost.mean()) + half
