"""How plates look, how they are turned, and how well the camera sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.demo.face import FONT

#: Smallest and largest of what is drawn evenly in between.
Interval = tuple[float, float]


@dataclass(frozen=True)
class Conditions:
    """What a photo of plates is like.

    Attributes:
        fonts: Typefaces that ship inside Matplotlib, by file name; each plate has one of them.
        roll_degrees: Most by which a plate is rolled to either side.
        turn: Most by which one side of a plate is taller than the other, as a part.
        yaw_degrees: Most by which a plate is turned away to either side: it becomes narrower, and
            the nearer side taller.
        blur: Standard deviation of the lens's blur, pixels; each photo has its own.
        noise: Standard deviation of the sensor's noise, of 255 steps; each photo has its own.
    """

    fonts: tuple[str, ...] = (FONT,)
    roll_degrees: float = 3.0
    turn: float = 0.05
    yaw_degrees: float = 0.0
    blur: Interval = (0.45, 0.45)
    noise: Interval = (3.0, 3.0)


#: The demo's: plates nearly straight ahead, in one typeface, by daylight.
CLEAR = Conditions()
#: What a camera at a gate sees. Chosen so that the trained networks read most plates and not all;
#: not tuned further.
VARIED = Conditions(
    fonts=(FONT, "DejaVuSans", "DejaVuSansMono-Bold", "DejaVuSerif-Bold"),
    roll_degrees=8.0,
    yaw_degrees=35.0,
    blur=(0.3, 1.0),
    noise=(2.0, 10.0),
)


def draw_between(random: np.random.Generator, interval: Interval) -> float:
    """A number in an interval; one without extent takes no draw."""
    low, high = interval
    return low if low == high else float(random.uniform(low, high))
