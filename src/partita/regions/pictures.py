"""Tensors as pictures: three channels at a time, one group under the other, compressed as JPEG.

Source: AUTO-SPLIT, section 4.6 of features, Table 7 of inputs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_CHANNELS = 3
#: JPEG compresses squares of so many pixels; where colours are halved, twice as many.
_BLOCK = 8
#: What the format can say of a side.
_MOST_SIDE = 65_500


def draw_picture(codes: Bytes, shape: Sequence[int], quality: int) -> bytes:
    """A tensor of bytes as a JPEG file.

    What has three channels is a photo, whose colours may be coarser than its brightness; features
    keep all of theirs.

    Args:
        codes: Flat, of ``prod(shape)`` bytes.
        shape: At least three extents, the last two those of the picture, or, where the last is 1 or
            3 and the third last is neither, the two before it.

    Returns:
        Nothing where the picture would be too large.
    """
    from PIL import Image

    planes = _as_planes(codes, shape)
    channels, height, width = planes.shape
    if not planes.size or width > _MOST_SIDE or height * (channels + 2) > _MOST_SIDE:
        return b""
    keep = {"subsampling": 0} if channels != _CHANNELS else {}
    file = io.BytesIO()
    Image.fromarray(_stack(planes)).save(file, "JPEG", quality=quality, **keep)
    return file.getvalue()


def read_picture(file: bytes | memoryview, shape: Sequence[int]) -> Bytes:
    """The bytes of a tensor of ``shape`` in a JPEG file that :func:`draw_picture` made; flat.

    Raises:
        ValueError: It is no such file, or of another size.
    """
    from PIL import Image

    planes = np.empty(_plane_shape(shape), np.uint8)
    expected = _stack(planes).shape
    try:
        with Image.open(io.BytesIO(file), formats=["JPEG"]) as image:
            if (image.height, image.width) != expected[:2]:
                raise ValueError(f"picture of {image.height}x{image.width} pixels")
            pixels = np.asarray(image)
    except (OSError, SyntaxError) as error:  # what Pillow raises for files that it cannot read
        raise ValueError(f"no readable picture: {error}") from None
    if pixels.shape != expected:
        raise ValueError(f"picture of shape {pixels.shape}, needed {expected}")
    return _unstack(pixels, planes, shape)


def _is_last(shape: Sequence[int]) -> bool:
    """Whether channels are the last axis."""
    return shape[-1] in (1, _CHANNELS) and shape[-3] not in (1, _CHANNELS)


def _plane_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    *rest, height, width = (*shape[:-3], shape[-1], *shape[-3:-1]) if _is_last(shape) else shape
    return prod(rest), height, width


def _as_planes(codes: Bytes, shape: Sequence[int]) -> Bytes:
    """The bytes by channel, row and column."""
    whole = codes.reshape(shape)
    moved = np.moveaxis(whole, -1, -3) if _is_last(shape) else whole
    planes: Bytes = moved.reshape(_plane_shape(shape))
    return planes


def _stack(planes: Bytes) -> Bytes:
    """Groups of three channels under each other; each begins a new row of blocks."""
    channels, height, width = planes.shape
    if channels == 1:
        single: Bytes = planes[0]
        return single
    groups, tall = -(-channels // _CHANNELS), -(-height // _BLOCK) * _BLOCK
    if groups == 1:
        tall = height
    padded = np.pad(
        planes, ((0, groups * _CHANNELS - channels), (0, tall - height), (0, 0)), mode="edge"
    )
    grouped: Bytes = padded.reshape(groups, _CHANNELS, tall, width)
    return grouped.transpose(0, 2, 3, 1).reshape(groups * tall, width, _CHANNELS)


def _unstack(pixels: Bytes, planes: Bytes, shape: Sequence[int]) -> Bytes:
    """The inverse of :func:`_stack` and :func:`_as_planes`; ``planes`` says how many there are."""
    channels, height, width = planes.shape
    if channels > 1:
        grouped: npt.NDArray[Any] = pixels.reshape(
            -(-channels // _CHANNELS), -1, width, _CHANNELS
        ).transpose(0, 3, 1, 2)
        pixels = grouped.reshape(-1, grouped.shape[2], width)[:channels, :height]
    if not _is_last(shape):
        return pixels.reshape(-1)
    whole = pixels.reshape(*shape[:-3], shape[-1], *shape[-3:-1])
    moved: Bytes = np.moveaxis(whole, -3, -1).reshape(-1)
    return moved
