"""What surrounds the plates: sky, houses, a road, and cars from behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

PAINTS: tuple[Colour, ...] = (
    (168, 32, 38),
    (222, 222, 218),
    (52, 56, 62),
    (150, 154, 160),
    (38, 92, 66),
    (196, 160, 92),
)


def draw_street(size: tuple[int, int], random: np.random.Generator) -> Image.Image:
    """Sky, houses and a road that narrows towards the horizon."""
    width, height = size
    horizon = int(height * 0.36)
    rows = np.empty((height, 1, 3))
    rows[:horizon, 0] = _blend((112, 152, 204), (214, 224, 234), horizon)
    rows[horizon:, 0] = _blend((132, 132, 130), (74, 75, 78), height - horizon)
    canvas = Image.fromarray(np.repeat(rows, width, axis=1).astype(np.uint8))
    pen = ImageDraw.Draw(canvas)
    left = -int(random.integers(0, width // 12))
    while left < width:
        wide = int(width * random.uniform(0.06, 0.15))
        tall = int(height * random.uniform(0.06, 0.2))
        _draw_house(pen, (left, horizon - tall, left + wide, horizon), random)
        left += wide
    verge = horizon + height // 40
    pen.rectangle((0, horizon, width, verge), fill=(104, 116, 84))
    for lane in (-0.35, 0.1, 0.9, 1.35):
        vanishing = width * (0.5 + (lane - 0.5) * 0.25)
        for start, stop in ((0.05, 0.14), (0.22, 0.38), (0.52, 0.78), (0.95, 1.0)):
            _draw_dash(pen, (vanishing, verge, width * lane, height), (start, stop))
    return canvas


def _draw_dash(
    pen: ImageDraw.ImageDraw, line: tuple[float, float, float, float], part: tuple[float, float]
) -> None:
    x0, y0, x1, y1 = line
    ends = [(x0 + (x1 - x0) * share, y0 + (y1 - y0) * share, share) for share in part]
    (ax, ay, a), (bx, by, b) = ends
    wide = (y1 - y0) / 60
    outline = [(ax - wide * a, ay), (ax + wide * a, ay), (bx + wide * b, by), (bx - wide * b, by)]
    pen.polygon(outline, fill=(196, 196, 188))


def _draw_house(
    pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int], random: np.random.Generator
) -> None:
    # Far houses are hazy: crisp white rows of windows pass for lines of characters.
    shade = int(random.integers(128, 180))
    pen.rectangle(box, fill=(shade, shade + 2, shade + 4))
    left, top, right, bottom = box
    step = max(8, (right - left) // 5)
    for x in range(left + step // 2, right - step // 2, step):
        for y in range(top + step // 2, bottom - step, step):
            window = (shade - 18, shade - 12, shade - 4)
            pen.rectangle((x, y, x + step // 2, y + step // 2), fill=window)


def draw_car(pen: ImageDraw.ImageDraw, place: tuple[float, float, float], paint: Colour) -> None:
    """Draw a car from behind.

    Args:
        place: Centre, ground, and a hundredth of the car's width, pixels.
    """
    centre, ground, unit = place

    def box(left: float, top: float, right: float, bottom: float) -> tuple[float, ...]:
        return (
            centre + left * unit,
            ground - top * unit,
            centre + right * unit,
            ground - bottom * unit,
        )

    dark = _shade(paint, 0.55)
    pen.ellipse(box(-56, 6, 56, -6), fill=(0, 0, 0, 90))
    for left in (-46, 30):
        pen.rounded_rectangle(box(left, 16, left + 16, -2), 4 * unit, fill=(22, 22, 24))
    cabin = [(-40, 48), (-29, 74), (29, 74), (40, 48)]
    pen.polygon([(centre + x * unit, ground - y * unit) for x, y in cabin], fill=dark)
    glass = [(-33, 50), (-25, 70), (25, 70), (33, 50)]
    pen.polygon([(centre + x * unit, ground - y * unit) for x, y in glass], fill=(58, 74, 88))
    sheen = [(-20, 50), (-12, 70), (2, 70), (-6, 50)]
    pen.polygon(
        [(centre + x * unit, ground - y * unit) for x, y in sheen], fill=(255, 255, 255, 40)
    )
    pen.rounded_rectangle(box(-50, 50, 50, 8), 7 * unit, fill=paint)
    pen.rounded_rectangle(box(-50, 50, 50, 44), 3 * unit, fill=_shade(paint, 1.15))
    for left in (-47, 33):
        pen.rounded_rectangle(box(left, 42, left + 14, 33), 2 * unit, fill=(186, 20, 24))
        pen.rounded_rectangle(box(left + 2, 40, left + 12, 37), unit, fill=(244, 120, 96))
    pen.rounded_rectangle(box(-52, 16, 52, 6), 3 * unit, fill=dark)


def _blend(first: Sequence[int], last: Sequence[int], rows: int) -> npt.NDArray[np.float64]:
    return np.linspace(np.array(first, float), np.array(last, float), rows)


def _shade(colour: Colour, factor: float) -> Colour:
    red, green, blue = (min(255, int(part * factor)) for part in colour)
    return red, green, blue
