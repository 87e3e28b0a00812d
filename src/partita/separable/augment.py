"""AutoAugment: which changes of pictures were found to help on CIFAR, and these changes.

Source: Cubuk et al., "AutoAugment: learning augmentation policies from data" (2019): tables 6
(operations) and 7 (what was found); the latter is the file beside this one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

#: Magnitudes are whole numbers up to this.
_MOST = 9
#: Of 331 pixels, the width that the paper moves pictures by at most 150 of.
_FARTHEST = 150 / 331
_GREY = (128, 128, 128)


class Change(NamedTuple):
    """One operation of a pair.

    Attributes:
        probability: That it is done.
        magnitude: How strongly, 0 to 9; operations that have no strength pass it over.
    """

    operation: str
    probability: float
    magnitude: int


@lru_cache(maxsize=1)
def read_pairs() -> tuple[tuple[Change, Change], ...]:
    """The pairs of changes; a picture is changed by one of them."""
    text = files(__package__).joinpath("autoaugment.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines()[1:])
    return tuple(
        (Change(row[0], float(row[1]), int(row[2])), Change(row[3], float(row[4]), int(row[5])))
        for row in rows
    )


def augment(images: Tensor, draw: torch.Generator) -> Tensor:
    """Each picture of (N, 3, H, W), bytes, changed by a pair that is drawn for it."""
    pairs, count = read_pairs(), len(images)
    chosen = torch.randint(len(pairs), (count,), generator=draw).tolist()
    chances = torch.rand(count, 2, generator=draw).tolist()
    signs = (1 - 2 * torch.randint(2, (count, 2), generator=draw)).tolist()
    pixels = images.permute(0, 2, 3, 1).numpy()
    changed = np.empty_like(pixels)
    for place in range(count):
        picture = Image.fromarray(np.ascontiguousarray(pixels[place]))
        for change, chance, sign in zip(
            pairs[chosen[place]], chances[place], signs[place], strict=True
        ):
            if chance < change.probability:
                strength = change.magnitude / _MOST
                picture = OPERATIONS[change.operation](picture, strength, sign)
        changed[place] = np.asarray(picture)
    return torch.from_numpy(changed).permute(0, 3, 1, 2).contiguous()


#: Changes a picture; by a strength from 0 to 1, and a sign where there are two ways.
Operation = Callable[[Image.Image, float, int], Image.Image]


def _bend(picture: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    """Each pixel from where a matrix says: (a, b, c, d, e, f), x from a x + b y + c."""
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, fillcolor=_GREY)


def _enhance(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:
    return lambda picture, strength, sign: kind(picture).enhance(1 + 0.9 * strength * sign)


OPERATIONS: Mapping[str, Operation] = {
    "shear_x": lambda picture, s, sign: _bend(picture, (1, 0.3 * s * sign, 0, 0, 1, 0)),
    "shear_y": lambda picture, s, sign: _bend(picture, (1, 0, 0, 0.3 * s * sign, 1, 0)),
    "translate_x": lambda picture, s, sign: _bend(
        picture, (1, 0, _FARTHEST * picture.width * s * sign, 0, 1, 0)
    ),
    "translate_y": lambda picture, s, sign: _bend(
        picture, (1, 0, 0, 0, 1, _FARTHEST * picture.height * s * sign)
    ),
    "rotate": lambda picture, s, sign: picture.rotate(30 * s * sign, fillcolor=_GREY),
    "auto_contrast": lambda picture, s, sign: ImageOps.autocontrast(picture),
    "invert": lambda picture, s, sign: ImageOps.invert(picture),
    "equalize": lambda picture, s, sign: ImageOps.equalize(picture),
    "solarize": lambda picture, s, sign: ImageOps.solarize(picture, round(256 * (1 - s))),
    "posterize": lambda picture, s, sign: ImageOps.posterize(picture, round(8 - 4 * s)),
    "contrast": _enhance(ImageEnhance.Contrast),
    "color": _enhance(ImageEnhance.Color),
    "brightness": _enhance(ImageEnhance.Brightness),
    "sharpness": _enhance(ImageEnhance.Sharpness),
}
