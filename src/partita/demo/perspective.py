"""Flat rectangles seen at an angle: the map between planes through four corners."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

Point = tuple[float, float]
Quad = tuple[Point, Point, Point, Point]


def rectangle(width: float, height: float) -> Quad:
    """The corners of an upright rectangle at the origin: clockwise from top left, pixels."""
    return ((0.0, 0.0), (width, 0.0), (width, height), (0.0, height))


def find_homography(source: Sequence[Point], target: Sequence[Point]) -> npt.NDArray[np.float64]:
    """The 3x3 matrix that takes four ``source`` points to four ``target`` points.

    Raises:
        ValueError: Three of the corners lie on one line, so that no such map exists.
    """
    rows, values = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        values += [u, v]
    try:
        solution = np.linalg.solve(np.array(rows, float), np.array(values, float))
    except np.linalg.LinAlgError as fault:
        raise ValueError(f"corners {tuple(source)} do not span a four-sided figure") from fault
    return np.append(solution, 1.0).reshape(3, 3)


def warp_image(
    image: Image.Image, source: Sequence[Point], target: Sequence[Point], size: tuple[int, int]
) -> Image.Image:
    """A picture of ``size`` (width, height) whose ``source`` corners lie at ``target``."""
    back = find_homography(target, source).reshape(-1)[:8]
    return image.transform(size, Image.Transform.PERSPECTIVE, tuple(back), Image.Resampling.BICUBIC)
