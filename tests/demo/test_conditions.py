"""What photos of plates are like."""

from dataclasses import replace
from math import cos, radians

import numpy as np
import pytest

from partita.demo.conditions import CLEAR, VARIED
from partita.demo.face import draw_plate
from partita.demo.photo import draw_photo

STRAIGHT = replace(CLEAR, roll_degrees=0.0, turn=0.0)


def _edges(corners):
    """Width and height of the upper and left edge."""
    (left, top), (right, _), _, (_, bottom) = corners
    return right - left, bottom - top


def test_a_varied_photo_depends_on_the_seed_alone():
    """The same arguments give the same bytes and truth, other conditions another photo."""
    pixels, truth = draw_photo(3, conditions=VARIED)
    again, repeated = draw_photo(3, conditions=VARIED)
    assert pixels.tobytes() == again.tobytes()
    assert truth == repeated
    assert pixels.tobytes() != draw_photo(3)[0].tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_varied_plates_lie_inside(seed):
    """However plates are turned, they are in the photo from left to right."""
    pixels, truth = draw_photo(seed, conditions=VARIED)
    lefts = [plate.box[0] for plate in truth]
    assert lefts == sorted(lefts)
    for plate in truth:
        left, top, right, bottom = plate.box
        assert 0 <= left < right <= pixels.shape[1]
        assert 0 <= top < bottom <= pixels.shape[0]


def test_plates_from_straight_ahead_are_upright():
    """Without roll, turn and yaw edges are level, and sides as plates have them: 440 to 140."""
    for plate in draw_photo(1, conditions=STRAIGHT)[1]:
        width, height = _edges(plate.corners)
        assert plate.corners[0][1] == pytest.approx(plate.corners[1][1])
        assert width / height == pytest.approx(440 / 140)


def test_a_plate_seen_from_its_side_is_narrower():
    """Yaw takes width, at most its cosine's part, and makes one side taller than the other."""
    ratios = []
    for seed in range(3):
        for plate in draw_photo(seed, conditions=replace(STRAIGHT, yaw_degrees=40.0))[1]:
            (_, top), (_, top_right), (_, bottom_right), (_, bottom) = plate.corners
            left, right = bottom - top, bottom_right - top_right
            ratios.append(_edges(plate.corners)[0] / ((left + right) / 2) / (440 / 140))
            assert abs(left - right) / (left + right) <= 0.08
    assert min(ratios) < 0.95
    assert cos(radians(40)) <= min(ratios) <= max(ratios) <= 1 + 1e-9


def test_noise_is_as_strong_as_asked():
    """Photos that differ by noise alone differ by its standard deviation."""
    quiet, loud = (
        draw_photo(0, conditions=replace(CLEAR, noise=(s, s)))[0].astype(float) for s in (0.0, 8.0)
    )
    assert np.std(loud - quiet) == pytest.approx(8.0, rel=0.05)


def test_blur_softens():
    """A stronger blur leaves less between neighbouring pixels."""
    sharp, soft = (
        draw_photo(0, conditions=replace(CLEAR, blur=(s, s)))[0].astype(float) for s in (0.3, 1.5)
    )
    assert np.abs(np.diff(soft, axis=1)).mean() < 0.9 * np.abs(np.diff(sharp, axis=1)).mean()


def test_typefaces_differ():
    """Each typeface has its own ink, and several are used on one set of photos."""
    plates = {draw_plate("A12345", font).tobytes() for font in VARIED.fonts}
    assert len(plates) == len(VARIED.fonts) > 1
