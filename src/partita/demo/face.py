"""The face of a number plate: which characters it may show, and how they look."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

#: No plate has I or O. Q, U, V and Z are left out too: squeezed to a plate's width, their DejaVu
#: forms are nearly 0, 0, W and 7 to a reader that was trained on another typeface.
LETTERS = "ABCDEFGHJKLMNPRSTWXY"
DIGITS = "0123456789"
#: Millimetres of a real plate, one texture pixel each.
PLATE_SIZE = (440, 140)
#: A typeface, by its file in Matplotlib.
FONT = "DejaVuSans-Bold"


def draw_text(random: np.random.Generator) -> str:
    """One letter and five characters, at most two of them letters, as real plates have."""
    tail = [str(random.choice(list(DIGITS))) for _ in range(5)]
    for place in random.choice(5, size=int(random.integers(0, 3)), replace=False):
        tail[place] = str(random.choice(list(LETTERS)))
    return str(random.choice(list(LETTERS))) + "".join(tail)


def draw_plate(text: str, font: str = FONT) -> Image.Image:
    """One blue plate seen from straight ahead, 440 x 140 pixels, in a typeface of Matplotlib."""
    width, height = PLATE_SIZE
    plate = Image.new("RGB", PLATE_SIZE, (18, 62, 158))
    pen = ImageDraw.Draw(plate)
    pen.rounded_rectangle((5, 5, width - 6, height - 6), 10, outline=(238, 240, 244), width=4)
    cell, gap = 52, (width - 40 - 52 * len(text)) // (len(text) - 1)
    for index, character in enumerate(text):
        glyph = _glyph(character, font).resize((cell, 92), Image.Resampling.LANCZOS)
        left = 20 + index * (cell + gap)
        plate.paste((240, 242, 246), (left, 24), glyph)
    return plate


@lru_cache(maxsize=256)
def _glyph(character: str, font: str) -> Image.Image:
    """A character's mask cut to its ink; narrow ones keep room at their sides."""
    drawn = load_font(160, font)
    left, top, right, bottom = (int(edge) for edge in drawn.getbbox(character))
    room = max(right - left, (bottom - top) * 55 // 100)
    mask = Image.new("L", (room, bottom - top), 0)
    inset = (room - (right - left)) // 2
    ImageDraw.Draw(mask).text((inset - left, -top), character, fill=255, font=drawn)
    return mask


@lru_cache(maxsize=8)
def load_font(size: int, name: str = FONT) -> ImageFont.FreeTypeFont:
    """A typeface that ships inside Matplotlib, ``size`` pixels tall."""
    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{name}.ttf")
    return ImageFont.truetype(str(path), size)
