import numpy as np
import pytest

from partita.demo.face import DIGITS, LETTERS, draw_plate
from partita.demo.photo import draw_photo
from partita.errors import InputError


def test_same_seed_same_bytes():
    """The photo and its truth depend on the seed alone."""
    first, truth = draw_photo(3)
    second, again = draw_photo(3)
    assert first.tobytes() == second.tobytes()
    assert truth == again


def test_other_seed_other_photo():
    """Another seed gives other plates on another picture."""
    first, truth = draw_photo(0)
    second, other = draw_photo(1)
    assert [plate.text for plate in truth] != [plate.text for plate in other]
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(("plates", "size"), [(1, (480, 640)), (2, (240, 320)), (4, (480, 640))])
def test_form(plates, size):
    """The photo has the size asked for, and every plate lies inside it, from left to right."""
    pixels, truth = draw_photo(7, plates=plates, size=size)
    assert pixels.shape == (*size, 3)
    assert pixels.dtype == np.uint8
    assert len(truth) == plates
    for plate in truth:
        left, top, right, bottom = plate.box
        assert 0 <= left < right <= size[1]
        assert 0 <= top < bottom <= size[0]
        assert plate.text[0] in LETTERS
        assert len(plate.text) == 6
        assert set(plate.text) <= set(LETTERS + DIGITS)
    assert [plate.box[0] for plate in truth] == sorted(plate.box[0] for plate in truth)


def test_plates_are_blue_where_the_truth_says():
    """The middle of each true box holds the plate's blue, so boxes and picture agree."""
    pixels, truth = draw_photo(0)
    for plate in truth:
        left, top, right, bottom = (round(edge) for edge in plate.box)
        red, _, blue = pixels[top:bottom, left:right].reshape(-1, 3).mean(axis=0)
        assert blue > red + 30


def test_plate_shows_its_characters():
    """Plates with different texts differ in ink."""
    assert draw_plate("A12345").tobytes() != draw_plate("A12346").tobytes()


@pytest.mark.parametrize("plates", [0, 5])
def test_impossible_number_of_plates(plates):
    """More cars than fit are refused with what is allowed."""
    with pytest.raises(InputError, match="allowed 1 to 4"):
        draw_photo(0, plates=plates)
