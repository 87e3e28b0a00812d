"""Drawn pictures that small networks learn to tell apart."""

import numpy as np

from partita.separable.data import SIZE, Dataset, Pictures


def draw_dataset(train: int = 48, test: int = 8, classes: int = 3, *, seed: int = 0) -> Dataset:
    """Noise with a stripe whose row is the class."""
    dice = np.random.default_rng(seed)
    parts = []
    for count in (train, test):
        labels = dice.integers(0, classes, count)
        images = dice.integers(0, 100, (count, 3, SIZE, SIZE)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[:, 4 + 8 * label : 8 + 8 * label] += 150
        parts.append(Pictures(images, labels.astype(np.int64)))
    return Dataset(parts[0], parts[1], classes, is_grey=False)
