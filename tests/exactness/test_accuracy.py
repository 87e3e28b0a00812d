"""What is lost of an accuracy, with its interval, and judges whose answers cannot be used."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

from partita.errors import InputError, PlanError
from partita.exactness.accuracy import ask_judge, compare_scores, take_as_it_is
from partita.planners import find_plan
from tests.planners.fakes import make_chain, make_cost

PLAN = find_plan(make_cost(make_chain(2), 1e7), planner="single").plan


def test_a_drop_is_a_part_of_the_networks_accuracy() -> None:
    """Four fifths of the samples right, then three: a quarter of them is lost."""
    whole, scores = np.array([1.0] * 80 + [0.0] * 20), np.array([1.0] * 60 + [0.0] * 40)
    accuracy = compare_scores(scores, whole)
    assert (accuracy.value, accuracy.samples) == (0.6, 100)
    assert accuracy.drop == pytest.approx(0.25)


def test_the_interval_of_right_and_wrong_is_that_of_the_paper() -> None:
    """Bonett and Price (2012): of n pairs, 20 lost and 5 gained, each counted once more."""
    whole = np.array([1.0] * 20 + [0.0] * 5 + [1.0] * 75)
    scores = np.array([0.0] * 20 + [1.0] * 5 + [1.0] * 75)
    lost, gained = 21 / 102, 6 / 102
    half = 1.959964 * sqrt((lost + gained - (lost - gained) ** 2) / 102)
    accuracy = compare_scores(scores, whole)
    assert accuracy.interval is not None
    wanted = [(lost - gained - half) / 0.95, (lost - gained + half) / 0.95]
    assert accuracy.interval == pytest.approx(wanted, rel=1e-6)


def test_few_samples_without_a_difference_say_little() -> None:
    """Ten equal answers allow more than ten per cent of loss; the network itself loses nothing."""
    same = np.ones(10)
    accuracy = compare_scores(same, same)
    assert accuracy.drop == 0
    assert accuracy.interval is not None
    assert accuracy.interval[1] > 0.1
    assert take_as_it_is(same).interval == (0.0, 0.0)


def test_no_more_than_all_is_lost() -> None:
    """Of scores that are not below 0 the interval ends where nothing is left."""
    accuracy = compare_scores(np.array([0.0, 0.0, 0.1, 0.0]), np.array([1.0, 0.2, 0.9, 0.4]))
    assert accuracy.interval is not None
    assert accuracy.interval[0] < accuracy.drop < 1.0
    assert accuracy.interval[1] == 1.0


def test_the_interval_holds_the_true_drop_as_often_as_it_says() -> None:
    """Of drawn judgements about 95 in 100, for right and wrong and for other scores."""
    rng = np.random.default_rng(0)
    held = {"right or wrong": 0, "power": 0}
    rounds = 600
    for _ in range(rounds):
        whole = (rng.random(120) < 0.9).astype(float)
        plan = np.where(rng.random(120) < 0.08, 0.0, whole)  # the true drop is 8 %
        low, high = compare_scores(plan, whole).interval or (1, 0)
        held["right or wrong"] += low <= 0.08 <= high
        kept = np.ones(120) - rng.gamma(2.0, 0.02, 120)  # the true drop is 4 %
        low, high = compare_scores(kept, np.ones(120)).interval or (1, 0)
        held["power"] += low <= 0.04 <= high
    assert all(0.92 <= count / rounds <= 0.98 for count in held.values())


def test_an_accuracy_alone_has_no_interval() -> None:
    """A judge may answer one number."""
    accuracy = compare_scores(np.array(0.7), np.array(0.8))
    assert accuracy.interval is None
    assert accuracy.drop == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (float("nan"), "answered nan, allowed: a finite number, or one per sample"),
        ([1.0, float("inf")], "answered .1.0, inf., allowed"),
        ("good", "answered 'good', allowed"),
        ("0.9", "answered '0.9', allowed"),
        (["0.9", "1"], r"answered \['0.9', '1'\], allowed"),
        (["0.9", None], "answered .'0.9', None., allowed"),
        (None, "answered None, allowed"),
        (True, "answered True, allowed"),
        ([], r"answered \[\], allowed"),
        ([[1.0]], r"answered \[\[1.0\]\], allowed"),
    ],
)
def test_what_is_no_accuracy_is_refused(answer: Any, words: str) -> None:
    """One line quotes it."""
    with pytest.raises(PlanError, match=words):
        ask_judge(lambda plan: answer, PLAN)


def test_what_a_judge_prints_is_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be in the way of a reply in JSON."""
    assert ask_judge(lambda plan: print("looked") or 0.5, PLAN) == 0.5  # type: ignore[func-returns-value]
    assert capsys.readouterr() == ("", "looked\n")


def test_a_judge_that_raises_is_named() -> None:
    """Its own error in the line; an error of ours passes as it is."""

    def fail(error: Exception) -> float:
        raise error

    with pytest.raises(PlanError, match="judge of plans failed: KeyError: 'boxes'"):
        ask_judge(lambda plan: fail(KeyError("boxes")), PLAN)
    with pytest.raises(InputError, match="no such picture"):
        ask_judge(lambda plan: fail(InputError("no such picture")), PLAN)


def test_of_nothing_nothing_can_be_lost() -> None:
    """A network whose accuracy is 0 is no measure."""
    with pytest.raises(PlanError, match="gives the network as it is 0, allowed: more than 0"):
        compare_scores(np.array(0.0), np.array(0.0))
