"""AutoAugment: the table, and what its operations do."""

import numpy as np
import pytest
import torch
from PIL import Image

from partita.separable.augment import OPERATIONS, augment, read_pairs

_DICE = np.random.default_rng(0)


def test_the_table_is_whole() -> None:
    """25 pairs (table 7 of Cubuk et al.), each operation known, each number in range."""
    pairs = read_pairs()
    assert len(pairs) == 25
    assert pairs[1][0] == ("rotate", 0.7, 2)
    for change in (one for pair in pairs for one in pair):
        assert change.operation in OPERATIONS
        assert 0 <= change.probability <= 1
        assert 0 <= change.magnitude <= 9


def test_pictures_are_changed_alike_by_one_seed() -> None:
    """And by another seed differently; type and shape stay."""
    images = torch.from_numpy(_DICE.integers(0, 256, (24, 3, 32, 32)).astype(np.uint8))
    one, two, other = (augment(images, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert not torch.equal(one, images)
    assert one.shape == images.shape
    assert one.dtype == torch.uint8


def _picture() -> Image.Image:
    pixels = np.full((32, 32, 3), 100, np.uint8)
    pixels[8:12, 20:24] = (200, 150, 60)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    "name", sorted(set(OPERATIONS) - {"auto_contrast", "invert", "equalize", "solarize"})
)
def test_no_strength_changes_nothing(name: str) -> None:
    """Magnitude 0 is the picture as it was."""
    for sign in (1, -1):
        assert np.array_equal(np.asarray(OPERATIONS[name](_picture(), 0, sign)), _picture())


def test_strength_is_the_papers() -> None:
    """15 of 32 pixels at most are moved, 4 bits left, all above nothing inverted."""
    moved = np.asarray(OPERATIONS["translate_x"](_picture(), 1, 1))
    assert (moved[:, -14:] == 128).all()
    assert (moved[8:12, 6:9] == (200, 150, 60)).all()
    assert (np.asarray(OPERATIONS["posterize"](_picture(), 1, 1)) % 16 == 0).all()
    inverted = np.asarray(OPERATIONS["solarize"](_picture(), 1, 1))
    assert np.array_equal(inverted, 255 - np.asarray(_picture()))
