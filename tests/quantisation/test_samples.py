"""Samples from files: what is taken, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partita.errors import InputError
from partita.quantisation import read_samples
from tests.quantisation.networks import small_graph

SPECS = small_graph().input_specs


def test_a_folder_of_arrays_and_images(tmp_path: Path) -> None:
    """Each file is a sample, in the order of names; images get the input's shape."""
    array = np.random.default_rng(0).random((1, 3, 16, 16), np.float32)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "b.npz", x=array)
    Image.new("RGB", (40, 30), (255, 0, 51)).save(tmp_path / "c.png")
    samples = read_samples(SPECS, [str(tmp_path)])
    assert len(samples) == 3
    assert np.array_equal(samples[0]["x"], samples[1]["x"])
    assert np.allclose(samples[2]["x"][0, :, 0, 0], [1.0, 0.0, 0.2])


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((1, 3, 8, 8), np.float32), "needs (1, 3, 16, 16) of float32"),
        (np.zeros((1, 3, 16, 16)), "has shape (1, 3, 16, 16) of float64"),
        (np.full((1, 3, 16, 16), np.nan, np.float32), "has 768 values for 'x' that are NaN"),
    ],
)
def test_a_sample_that_does_not_fit_is_named(tmp_path: Path, array: np.ndarray, words: str) -> None:
    """Wrong shapes, types and NaN are refused in a line with the file."""
    np.save(tmp_path / "odd.npy", array)
    with pytest.raises(InputError) as caught:
        read_samples(SPECS, [str(tmp_path)])
    assert words in caught.value.message
    assert "odd.npy" in caught.value.message


def test_a_folder_without_samples_is_refused(tmp_path: Path) -> None:
    """There must be some."""
    with pytest.raises(InputError, match=r"has no \.npy, \.npz or image files"):
        read_samples(SPECS, [str(tmp_path)])
