"""Pictures as inputs: sizes, middles, order of channels and axes, scales."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partita.errors import InputError
from partita.program import TensorSpec
from partita.quantisation.pictures import Preparation, prepare_picture, read_pixels

FLOATS = TensorSpec("x", (1, 3, 8, 8), "float32")
BYTES_LAST = TensorSpec("x", (1, 8, 8, 3), "uint8")


def stripes(height: int, width: int) -> np.ndarray:
    """Columns of red 0, 1, 2..., rows of green 0, 1, 2..., blue 200."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([columns, rows, np.full_like(rows, 200)], axis=2).astype(np.uint8)


def test_a_picture_of_the_inputs_size_is_scaled() -> None:
    """Numbers from 0 to 1, channels first."""
    made = prepare_picture(FLOATS, stripes(8, 8))
    np.testing.assert_array_equal(made[0].transpose(1, 2, 0), stripes(8, 8) / np.float32(255))
    assert made.dtype == np.float32


def test_bytes_stay_bytes() -> None:
    """Channels last, blue first."""
    made = prepare_picture(BYTES_LAST, stripes(8, 8), Preparation(color="bgr"))
    np.testing.assert_array_equal(made[0], stripes(8, 8)[:, :, ::-1])


def test_the_middle_is_taken() -> None:
    """Without a stretch where it has the input's size."""
    made = prepare_picture(BYTES_LAST, stripes(12, 20), Preparation(crop=(8, 8)))
    np.testing.assert_array_equal(made[0], stripes(12, 20)[2:10, 6:14])


def test_a_resize_keeps_proportions() -> None:
    """The shorter side is given; the middle of the result is the picture's."""
    small = Preparation(resize=8, crop=(8, 8))
    made = prepare_picture(BYTES_LAST, np.repeat(np.repeat(stripes(8, 16), 2, 0), 2, 1), small)
    np.testing.assert_allclose(made[0][1:-1, 1:-1, 0], stripes(8, 16)[1:-1, 5:11, 0], atol=1)


def test_a_mean_is_taken_and_a_deviation_divides() -> None:
    """Per channel of the input, after its order."""
    how = Preparation(color="bgr", mean=(0.1, 0.2, 0.3), std=(0.5, 1.0, 2.0))
    made = prepare_picture(FLOATS, stripes(8, 8), how)
    plain = prepare_picture(FLOATS, stripes(8, 8), Preparation(color="bgr"))
    for channel, (mean, std) in enumerate(zip(how.mean, how.std, strict=True)):
        np.testing.assert_allclose(made[0, channel], (plain[0, channel] - mean) / std, rtol=1e-6)


def test_grey_inputs_get_grey() -> None:
    """One channel."""
    spec = TensorSpec("x", (1, 1, 4, 4), "uint8")
    assert prepare_picture(spec, np.full((4, 4, 3), 77, np.uint8)).tolist() == [[[[77] * 4] * 4]]


def test_the_layout_decides_where_the_shape_does_not() -> None:
    """Of 1 x 3 x 5 x 3 either end may be the channels."""
    spec = TensorSpec("x", (1, 3, 5, 3), "uint8")
    pixels = stripes(3, 5)
    last = prepare_picture(spec, pixels, Preparation(layout="nhwc"))
    np.testing.assert_array_equal(last[0], pixels)
    assert not np.array_equal(prepare_picture(spec, pixels)[0], pixels)


@pytest.mark.parametrize(
    ("spec", "given", "words"),
    [
        (TensorSpec("x", (1, 5), "float32"), {}, "'x' of shape (1, 5) of float32 takes no image"),
        (
            TensorSpec("x", (2, 3, 8, 8), "float32"),
            {},
            "takes no image, which has four axes",
        ),
        (TensorSpec("x", (1, 3, 8, 8), "int8"), {}, "of int8 takes no image"),
        (FLOATS, {"layout": "nhwc"}, "takes no image as nhwc"),
        (BYTES_LAST, {"mean": (0.5,)}, "takes bytes: mean and std are for inputs of floats"),
        (FLOATS, {"std": (1.0, 1.0)}, "std has 2 numbers, model input 'x' has 3 channels"),
        (FLOATS, {"crop": (9, 8)}, "A picture of 8x8 pixels has no middle of 9x8"),
        (FLOATS, {"resize": (10**5, 10**5)}, "pixels is too large"),
        (FLOATS, {"resize": 0}, "resize is 0, allowed: pixels from 1"),
        (FLOATS, {"color": "cmyk"}, "color is cmyk, allowed: rgb, bgr"),
        (FLOATS, {"layout": "chwn"}, "layout is chwn, allowed: nchw, nhwc"),
        (FLOATS, {"std": (0.0,)}, "std is 0, allowed: numbers above 0"),
        (FLOATS, {"mean": (float("nan"),)}, "mean is nan, allowed: numbers"),
    ],
)
def test_what_does_not_fit_is_refused(spec: TensorSpec, given: dict, words: str) -> None:
    """In one line that says what is allowed."""
    with pytest.raises(InputError) as caught:
        prepare_picture(spec, stripes(8, 8), Preparation(**given))
    assert words in caught.value.message


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    """Whatever its bytes make of the decoder: Pillow raises SyntaxError here."""
    path = tmp_path / "a.png"
    Image.fromarray(stripes(8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[14] ^= 255
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.png' is no readable \.png file"):
        read_pixels(path)


def test_a_palette_with_transparency_is_read_without_a_word(tmp_path: Path) -> None:
    """Its colours are the picture's; Pillow would warn of it for each file of a folder."""
    picture = Image.new("P", (2, 2), 1)
    picture.putpalette([0, 0, 0, 10, 20, 30])
    picture.save(tmp_path / "a.png", transparency=bytes([0, 128]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_pixels(tmp_path / "a.png").tolist() == [[[10, 20, 30]] * 2] * 2
