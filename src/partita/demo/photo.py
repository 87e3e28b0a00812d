"""The demo's photo: a street with number plates, drawn from a seed, so that the truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from partita.demo.conditions import CLEAR, Conditions, draw_between
from partita.demo.face import PLATE_SIZE, draw_plate, draw_text
from partita.demo.perspective import Point, Quad, rectangle, warp_image
from partita.demo.scene import PAINTS, draw_car, draw_street
from partita.errors import InputError

Pixels = npt.NDArray[np.uint8]

#: Cars stand side by side, each with its part of the width: more would have plates too small to
#: read. Not tuned.
MOST_PLATES = 4

#: Edges come out smooth; more takes longer to draw. Not tuned.
_OVERSAMPLING = 2

#: Half a plate's width over its distance, 0.44 m and 2.75 m: times the sine of the angle by which
#: it is turned away, the part by which one side is nearer.
_NEARER = 0.08


@dataclass(frozen=True)
class DrawnPlate:
    """A plate in the photo: the truth that reading is compared with.

    Attributes:
        corners: Clockwise from top left, pixels.
    """

    text: str
    corners: Quad

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Upright hull of the corners: left, top, right, bottom in pixels."""
        xs, ys = zip(*self.corners, strict=True)
        return min(xs), min(ys), max(xs), max(ys)


def draw_photo(
    seed: int,
    *,
    plates: int = 3,
    size: tuple[int, int] = (480, 640),
    conditions: Conditions = CLEAR,
) -> tuple[Pixels, list[DrawnPlate]]:
    """A photo of cars on a road, and the plates on them from left to right.

    The same arguments always give the same bytes.

    Args:
        seed: Decides texts, places, colours, angles and noise.
        plates: How many cars, 1 to 4.
        size: Height and width in pixels.
        conditions: Of typefaces, angles, blur and noise.

    Returns:
        The photo, uint8 of height x width x 3 in RGB order, and the truth about its plates.

    Raises:
        InputError: The number of plates is outside the range.
    """
    if not 1 <= plates <= MOST_PLATES:
        raise InputError(
            f"Photo has an impossible number of plates: {plates}, allowed 1 to {MOST_PLATES}.",
            subject="plates",
        )
    random = np.random.default_rng(seed)
    height, width = size
    # Lines and corners come out smooth when drawn larger and reduced.
    large = (width * _OVERSAMPLING, height * _OVERSAMPLING)
    canvas = draw_street(large, random)
    slot = large[0] / plates
    depths = random.permutation(np.linspace(0.0, 1.0, plates)) if plates > 1 else [0.6]
    truth = []
    for index, depth in enumerate(depths):
        centre = slot * (index + 0.5 + random.uniform(-0.04, 0.04))
        text = draw_text(random)
        corners = _place_car(canvas, (centre, float(depth), slot), text, conditions, random)
        truth.append(DrawnPlate(text, _shrink(corners)))
    small = canvas.resize((width, height), Image.Resampling.LANCZOS)
    return _expose(small, conditions, random), truth


def _place_car(
    canvas: Image.Image,
    place: tuple[float, float, float],
    text: str,
    conditions: Conditions,
    random: np.random.Generator,
) -> Quad:
    """Draw a car from behind at (centre, depth 0 far to 1 near, room), and return its corners."""
    centre, depth, room = place
    wide = min(room * (0.80 + 0.14 * depth), canvas.height * 0.62)
    ground = canvas.height * (0.55 + 0.4 * depth)
    unit = wide / 100
    paint = PAINTS[int(random.integers(len(PAINTS)))]
    draw_car(ImageDraw.Draw(canvas, "RGBA"), (centre, ground, unit), paint)
    share = random.uniform(0.44, 0.48)
    flat = _tilt((centre, ground - 25 * unit), wide * share, conditions, random)
    shadow = [(x, y + 0.6 * unit) for x, y in flat]
    ImageDraw.Draw(canvas, "RGBA").polygon(shadow, fill=(0, 0, 0, 110))
    texture = draw_plate(text, _draw_font(conditions, random))
    corners = rectangle(*PLATE_SIZE)
    picture = warp_image(texture, corners, flat, canvas.size)
    mask = warp_image(Image.new("L", PLATE_SIZE, 255), corners, flat, canvas.size)
    canvas.paste(picture, (0, 0), mask)
    return flat


def _draw_font(conditions: Conditions, random: np.random.Generator) -> str:
    fonts = conditions.fonts
    return fonts[0] if len(fonts) == 1 else fonts[int(random.integers(len(fonts)))]


def _tilt(centre: Point, wide: float, conditions: Conditions, random: np.random.Generator) -> Quad:
    """A plate's corners around ``centre``, rolled, turned and looked at from the side."""
    x, y = centre
    tall = wide * PLATE_SIZE[1] / PLATE_SIZE[0]
    most_roll, most_yaw = conditions.roll_degrees, conditions.yaw_degrees
    roll = np.tan(np.radians(random.uniform(-most_roll, most_roll)))
    turn = random.uniform(-conditions.turn, conditions.turn)
    yaw = np.radians(draw_between(random, (-most_yaw, most_yaw)))
    wide, turn = wide * np.cos(yaw), turn + _NEARER * np.sin(yaw)

    def corner(side: int, edge: int) -> Point:
        lift = edge * tall / 2 * (1 + side * turn)
        return (float(x + side * wide / 2 - lift * roll), float(y + lift + side * wide / 2 * roll))

    return corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)


def _shrink(corners: Quad) -> Quad:
    a, b, c, d = ((x / _OVERSAMPLING, y / _OVERSAMPLING) for x, y in corners)
    return a, b, c, d


def _expose(image: Image.Image, conditions: Conditions, random: np.random.Generator) -> Pixels:
    """The scene as a small camera sees it: slightly soft, darker at the rim, noisy."""
    blur = draw_between(random, conditions.blur)
    pixels = np.asarray(image.filter(ImageFilter.GaussianBlur(blur)), dtype=np.float64)
    height, width, _ = pixels.shape
    y, x = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)[None, :]
    rim = 1 - 0.12 * (x * x + y * y)
    noise = draw_between(random, conditions.noise)
    noisy = pixels * rim[..., None] + random.normal(0, noise, pixels.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
