"""How readings are scored, by cases counted by hand."""

import pytest

from partita.demo.detector import Detection
from partita.demo.photo import DrawnPlate
from partita.demo.reader import PlateRead
from partita.demo.score import PlateScore, edit_distance, overlap, score_plates


def _corners(left, top, right, bottom):
    return ((left, top), (right, top), (right, bottom), (left, bottom))


def _drawn(text, box):
    return DrawnPlate(text, _corners(*box))


def _read(text, box):
    return PlateRead(text, Detection(box, 0.9, _corners(*box)))


NEAR, FAR = (10.0, 10.0, 50.0, 22.0), (100.0, 10.0, 140.0, 22.0)


def test_one_read_one_misread_by_two():
    """Of twelve characters two are wrong: one changed, one left out."""
    drawn = [_drawn("A12345", NEAR), _drawn("B67890", FAR)]
    read = [_read("B6789", FAR), _read("A12345", NEAR)]
    assert score_plates(drawn, read) == PlateScore(2, 2, 1, 12, 1)
    assert score_plates(drawn, [_read("B6189", FAR), read[1]]) == PlateScore(2, 2, 1, 12, 2)


def test_a_plate_that_was_not_found_is_wrong_in_all_characters():
    """What was read elsewhere does not count for it, and houses read as plates count nothing."""
    drawn = [_drawn("A12345", NEAR)]
    assert score_plates(drawn, []) == PlateScore(1, 0, 0, 6, 6)
    assert score_plates(drawn, [_read("A12345", FAR)]) == PlateScore(1, 0, 0, 6, 6)


def test_no_more_characters_are_wrong_than_there_are():
    """A long misreading costs a plate's own characters."""
    score = score_plates([_drawn("A1", NEAR)], [_read("99999999", NEAR)])
    assert (score.characters, score.wrong) == (2, 2)


def test_scores_add_up():
    """Accuracies are of all plates and characters together."""
    score = PlateScore(2, 2, 1, 12, 3) + PlateScore(2, 1, 1, 12, 0)
    assert score == PlateScore(4, 3, 2, 24, 3)
    assert (score.plate_accuracy, score.character_accuracy) == (0.5, 0.875)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("A12345", "A1234", 1),
        ("ab", "ba", 2),
    ],
)
def test_edit_distance(one, other, distance):
    """Changes, insertions and deletions cost one each; the distance has no direction."""
    assert edit_distance(one, other) == edit_distance(other, one) == distance


def test_overlap():
    """Half of each: a third of both. Apart: nothing."""
    assert overlap((0, 0, 2, 1), (1, 0, 3, 1)) == pytest.approx(1 / 3)
    assert overlap((0, 0, 1, 1), (2, 0, 3, 1)) == 0
    assert overlap((0, 0, 1, 1), (0, 0, 1, 1)) == pytest.approx(1)
