"""The photo with what was read on it, and with who looked at which rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from partita.demo.detector import Pixels
from partita.demo.face import load_font
from partita.demo.reader import PlateRead
from partita.plan import Plan, Shard, Stage

#: The photo is drawn larger by this, so that letters stay legible. Not tuned.
_SCALE = 2
_FRAME = (255, 214, 10)
_BAND_COLOURS = ((0, 119, 187), (238, 119, 51), (0, 153, 136), (204, 51, 17), (170, 68, 153))


@dataclass(frozen=True)
class Band:
    """The rows of the photo that a device answers for, as shares of its height."""

    device: str
    start: float
    stop: float


def find_bands(plan: Plan) -> list[Band]:
    """The rows of each device in the plan's largest stage that is divided by rows.

    Returns:
        Bands from top to bottom; empty where no stage is divided by rows.
    """
    divided = [stage for stage in plan.stages if stage.axis == "rows" and _owners(stage)]
    if not divided:
        return []
    stage = max(divided, key=lambda stage: len(stage.layers))
    owners = _owners(stage)
    tensor, axis = _row_axis(owners)
    bounds = {shard.device: shard.boxes[tensor].bounds[axis] for shard in owners}
    height = max(stop for _, stop in bounds.values())
    bands = [
        Band(device, start / height, stop / height) for device, (start, stop) in bounds.items()
    ]
    return sorted((band for band in bands if band.start < band.stop), key=lambda band: band.start)


def _owners(stage: Stage) -> list[Shard]:
    """The shards of a stage that own something, where there are several."""
    owners = [s for s in stage.shards if any(not box.is_empty for box in s.boxes.values())]
    return owners if len(owners) > 1 else []


def _row_axis(owners: Sequence[Shard]) -> tuple[str, int]:
    """The tallest output that the shards divide, and the axis where their boxes differ."""
    first, *rest = owners
    heights = {}
    for tensor, box in first.boxes.items():
        for axis, interval in enumerate(box.bounds):
            others = [shard.boxes[tensor].bounds[axis] for shard in rest if tensor in shard.boxes]
            if any(other != interval for other in others):
                heights[tensor, axis] = max(stop for _, stop in (interval, *others))
    return max(heights, key=lambda key: heights[key])


def annotate_photo(
    pixels: Pixels, plates: Sequence[PlateRead], bands: Sequence[Band] = ()
) -> Image.Image:
    """The photo, twice as large, with frames and texts, and a strip of devices beside it."""
    height, width, _ = pixels.shape
    photo = Image.fromarray(pixels).resize(
        (width * _SCALE, height * _SCALE), Image.Resampling.BICUBIC
    )
    pen = ImageDraw.Draw(photo)
    for plate in plates:
        _draw_reading(pen, plate)
    return _add_strip(photo, bands) if bands else photo


def _draw_reading(pen: ImageDraw.ImageDraw, plate: PlateRead) -> None:
    corners = [(x * _SCALE, y * _SCALE) for x, y in plate.detection.corners]
    pen.line([*corners, corners[0]], fill=_FRAME, width=4, joint="curve")
    left, bottom = min(x for x, _ in corners), max(y for _, y in corners) + 8
    label = f"{plate.text}  {plate.detection.score:.2f}"
    font = load_font(26)
    box = pen.textbbox((left + 6, bottom + 3), label, font=font)
    pen.rounded_rectangle((box[0] - 6, box[1] - 5, box[2] + 6, box[3] + 5), 4, fill=_FRAME)
    pen.text((left + 6, bottom + 3), label, fill=(0, 0, 0), font=font)


def _add_strip(photo: Image.Image, bands: Sequence[Band]) -> Image.Image:
    """The photo with one coloured field per device at its right, at the device's rows."""
    strip = 170
    whole = Image.new("RGB", (photo.width + strip, photo.height), (255, 255, 255))
    whole.paste(photo, (0, 0))
    pen = ImageDraw.Draw(whole)
    font = load_font(22)
    for index, band in enumerate(bands):
        top, bottom = band.start * photo.height, band.stop * photo.height
        colour = _BAND_COLOURS[index % len(_BAND_COLOURS)]
        pen.rectangle((photo.width, top, whole.width, bottom), fill=colour)
        pen.line((0, bottom, photo.width, bottom), fill=colour, width=2)
        middle = (photo.width + strip / 2, (top + bottom) / 2)
        pen.text(middle, band.device, fill=(255, 255, 255), font=font, anchor="mm")
    return whole
