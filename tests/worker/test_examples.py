"""Pieces that codecs are timed with on an emulated device."""

from __future__ import annotations

import numpy as np
import pytest

from partita.execution.pieces import Codec
from partita.regions import Grid, most_bytes
from partita.worker.calibration import draw_example

SHAPE = (1, 3, 64, 64)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_as_much_is_left_of_bytes_as_is_expected(dtype: str, share: float) -> None:
    """Packing takes as long as what it leaves is long: examples are not all zeros."""
    codec = Codec(SHAPE, dtype, f"zlib@{share}", None)
    array = draw_example(codec, SHAPE)
    assert (array.shape, array.dtype) == (SHAPE, dtype)
    left = len(codec.encode(array)) / most_bytes(SHAPE, dtype, codec.wire)
    assert left == pytest.approx(share, abs=0.13)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_as_much_is_left_of_codes_as_is_expected(bits: int, share: float) -> None:
    """They are values of the tensor's own grid, and travel as these."""
    wire = f"codes{bits}+zlib@{share}"
    codec = Codec(SHAPE, "float32", wire, None, Grid(bits, 0.25, 1))
    array = draw_example(codec, SHAPE)
    payload = codec.encode(array)
    assert np.array_equal(codec.decode(payload), array)
    assert len(payload) / most_bytes(SHAPE, "float32", wire) == pytest.approx(share, abs=0.2)


def test_pictures_have_crests_in_bytes_as_in_floats() -> None:
    """Of zeros alone a picture would be drawn in no time."""
    for dtype in ("uint8", "float32"):
        array = draw_example(Codec(SHAPE, dtype, "jpeg60@0.5", None), SHAPE)
        assert len(np.unique(array)) > 50
