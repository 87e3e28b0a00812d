"""Mean average precision, by cases whose numbers follow from the definition by hand."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.accuracy.average_precision import Boxes, mean_average_precision

A, B, FAR = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (50.0, 50.0, 60.0, 60.0)


def _boxes(*rows: tuple[tuple[float, ...], int, float]) -> Boxes:
    """Boxes of corners, class and score."""
    corners = np.array([row[0] for row in rows], float).reshape(-1, 4)
    classes = np.array([row[1] for row in rows], np.int64)
    return Boxes(corners, classes, np.array([row[2] for row in rows], float))


def _score(truth: list[Boxes], found: list[Boxes]) -> float:
    return mean_average_precision(truth, found)


def test_what_is_there_and_nothing_else() -> None:
    """Every box found where it is: 1, also with unsure detections behind the last right one."""
    truth = [_boxes((A, 0, 1), (B, 1, 1)), _boxes((B, 0, 1))]
    assert _score(truth, truth) == 1.0
    more = [_boxes((A, 0, 0.9), (B, 1, 0.8), (FAR, 0, 0.1)), truth[1]]
    assert _score(truth, more) == 1.0


def test_nothing_found() -> None:
    """No detection: 0. Boxes of a class that is not there cost nothing."""
    truth = [_boxes((A, 0, 1))]
    assert _score(truth, [_boxes()]) == 0.0
    assert _score(truth, [_boxes((A, 0, 1), (FAR, 7, 1))]) == 1.0


def test_half_of_the_boxes() -> None:
    """One of two found: precision 1 at the 51 recalls up to a half, 0 at the 50 above."""
    truth = [_boxes((A, 0, 1), (B, 0, 1))]
    assert _score(truth, [_boxes((A, 0, 1))]) == pytest.approx(51 / 101)


def test_a_surer_fault_halves_precision() -> None:
    """A wrong one before the right one: precision 1/2 at every recall."""
    truth = [_boxes((A, 0, 1))]
    assert _score(truth, [_boxes((FAR, 0, 0.9), (A, 0, 0.8))]) == pytest.approx(0.5)


def test_precision_is_the_best_at_or_above_a_recall() -> None:
    """Right, wrong, right: precision 1 up to recall 1/2, and 2/3 from there to 1."""
    truth = [_boxes((A, 0, 1), (B, 0, 1))]
    found = [_boxes((A, 0, 0.9), (FAR, 0, 0.8), (B, 0, 0.7))]
    assert _score(truth, found) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_each_box_is_taken_once() -> None:
    """A second detection of the same box is a fault: right, wrong, right as above."""
    truth = [_boxes((A, 0, 1), (B, 0, 1))]
    found = [_boxes((A, 0, 0.9), (A, 0, 0.8), (B, 0, 0.7))]
    assert _score(truth, found) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_ten_bounds_of_overlap() -> None:
    """A box of 0.72 of the width overlaps by 0.72: right at the 5 bounds from .5 to .7."""
    assert _score([_boxes((A, 0, 1))], [_boxes(((0, 0, 7.2, 10), 0, 1))]) == pytest.approx(0.5)


def test_detections_of_all_images_are_in_one_order() -> None:
    """The fault on the second image is surer than what is right on the first."""
    truth = [_boxes((A, 0, 1)), _boxes()]
    assert _score(truth, [_boxes((A, 0, 0.5)), _boxes((A, 0, 0.6))]) == pytest.approx(0.5)
    assert _score(truth, [_boxes((A, 0, 0.5)), _boxes((A, 0, 0.4))]) == 1.0


def test_a_detection_takes_the_box_it_overlaps_most() -> None:
    """Of two boxes side by side the second detection still has its own."""
    near = (3.0, 0.0, 13.0, 10.0)
    truth = [_boxes((A, 0, 1), (near, 0, 1))]
    assert _score(truth, [_boxes((near, 0, 0.9), (A, 0, 0.8))]) == 1.0


def test_the_mean_is_over_classes() -> None:
    """One class perfect, one missed: a half."""
    assert _score([_boxes((A, 0, 1), (B, 1, 1))], [_boxes((A, 0, 1))]) == pytest.approx(0.5)


def test_without_truth_there_is_no_score() -> None:
    """Nothing to compare with is refused."""
    with pytest.raises(ValueError, match="no box of truth"):
        _score([_boxes()], [_boxes((A, 0, 1))])
