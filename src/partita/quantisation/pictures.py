"""Pictures as inputs of a network: the one rule by which pixels become a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partita.errors import InputError
from partita.program import TensorSpec
from partita.regions import Array

if TYPE_CHECKING:
    from PIL import Image

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
#: Orders of a picture's colours in the input, and of its axes.
COLORS, LAYOUTS = ("rgb", "bgr"), ("nchw", "nhwc")
#: Pixels of a picture: 0.3 GB of bytes.
MOST_PIXELS = 10**8


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes an input: resized, cropped, stretched to what the input takes, scaled.

    Attributes:
        resize: Pixels of the shorter side, the other in proportion; or height and width. None
            leaves the size.
        crop: Height and width of the middle that is taken then; None takes all.
        color: Order of the channels where there are three.
        layout: Where the channels are; None for what the input's shape says.
        mean: Taken from numbers from 0 to 1: one for all channels of the input, or one for each in
            its order; empty takes nothing.
        std: What is left is divided by this; empty divides by nothing.

    Raises:
        InputError: A value is not allowed.
    """

    resize: int | Size | None = None
    crop: Size | None = None
    color: str = "rgb"
    layout: str | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        sizes = (self.resize,) if isinstance(self.resize, int) else self.resize or (1,)
        for name, is_right, allowed in (
            ("resize", min(sizes) >= 1, "pixels from 1"),
            ("crop", min(self.crop or (1,)) >= 1, "pixels from 1"),
            ("color", self.color in COLORS, ", ".join(COLORS)),
            ("layout", self.layout in (None, *LAYOUTS), ", ".join(LAYOUTS)),
            ("mean", all(map(isfinite, self.mean)), "numbers"),
            ("std", all(isfinite(x) and x > 0 for x in self.std), "numbers above 0"),
        ):
            if not is_right:
                given = getattr(self, name)
                if isinstance(given, tuple):
                    given = ", ".join(f"{number:g}" for number in given)
                raise InputError(f"{name} is {given}, allowed: {allowed}.", subject=name)


@dataclass(frozen=True)
class PictureForm:
    """What an input takes: ``channels`` are 1 or 3, and come before rows or after columns."""

    height: int
    width: int
    channels: int
    is_first: bool


def picture_form(spec: TensorSpec, how: Preparation | None = None) -> PictureForm:
    """The picture that an input takes.

    Raises:
        InputError: It takes none: it needs one batch entry, 1 or 3 channels, and bytes or floats;
            or not one that is prepared so.
    """
    how = how or Preparation()
    shape, layout = spec.shape, how.layout
    is_first = len(shape) == 4 and shape[1] in (1, 3) and layout != "nhwc"
    is_last = len(shape) == 4 and shape[3] in (1, 3) and layout != "nchw"
    is_scaled = spec.dtype.startswith("float")
    if not (is_first or is_last) or shape[0] != 1 or not (is_scaled or spec.dtype == "uint8"):
        asked = f" as {layout}" if layout else ""
        raise InputError(
            f"Model input '{spec.name}' of shape {shape} of {spec.dtype} takes no image{asked},"
            " which has four axes: one request, 1 or 3 channels, height and width, or channels"
            " last; and bytes or floats. Give a .npy file.",
            subject=spec.name,
        )
    height, width = shape[2:] if is_first else shape[1:3]
    channels = shape[1] if is_first else shape[3]
    if (how.mean or how.std) and not is_scaled:
        raise InputError(
            f"Model input '{spec.name}' takes bytes: mean and std are for inputs of floats.",
            subject=spec.name,
        )
    for name, values in (("mean", how.mean), ("std", how.std)):
        if len(values) not in (0, 1, channels):
            raise InputError(
                f"{name} has {len(values)} numbers, model input '{spec.name}' has {channels}"
                " channels: give one, or one for each.",
                subject=name,
            )
    return PictureForm(height, width, channels, is_first)


def prepare_picture(spec: TensorSpec, pixels: Pixels, how: Preparation | None = None) -> Array:
    """A picture as the input: bytes, or numbers from 0 to 1 before ``mean`` and ``std``.

    Args:
        pixels: Height x width x 3, RGB.

    Returns:
        Of the input's shape and type.

    Raises:
        InputError: The input takes no picture, or the picture is smaller than the part to be taken.
    """
    from PIL import Image

    how = how or Preparation()
    form = picture_form(spec, how)
    image = Image.fromarray(pixels)
    image = _resize(image.convert("L") if form.channels == 1 else image, how)
    if image.size != (form.width, form.height):
        image = image.resize((form.width, form.height))
    whole = np.asarray(image).reshape(form.height, form.width, form.channels)
    if how.color == "bgr":
        whole = whole[:, :, ::-1]
    # Bytes are put in order before they become numbers: there are four times fewer of them.
    ordered = np.ascontiguousarray((whole.transpose(2, 0, 1) if form.is_first else whole)[None])
    if spec.dtype == "uint8":
        return ordered
    scaled = ordered / np.float32(255)
    if how.mean:
        scaled -= _per_channel(how.mean, form)
    if how.std:
        scaled /= _per_channel(how.std, form)
    return scaled.astype(spec.dtype, copy=False)


def _resize(image: Image.Image, how: Preparation) -> Image.Image:
    """The image, resized and its middle taken; Pillow counts columns before rows."""
    if how.resize is not None:
        whole = how.resize
        height, width = whole if isinstance(whole, tuple) else _in_proportion(image, whole)
        _refuse_large(height, width)
        image = image.resize((width, height))
    if how.crop is None:
        return image
    height, width = how.crop
    if height > image.height or width > image.width:
        raise InputError(
            f"A picture of {image.height}x{image.width} pixels has no middle of {height}x{width}.",
            subject="crop",
        )
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _in_proportion(image: Image.Image, shorter: int) -> Size:
    scale = shorter / min(image.size)
    return round(image.height * scale), round(image.width * scale)


def _refuse_large(height: int, width: int) -> None:
    """Refuse what no sensible picture has: a damaged one may be of one row."""
    if height * width > MOST_PIXELS:
        raise InputError(
            f"A picture of {height}x{width} pixels is too large: allowed are {MOST_PIXELS}.",
            subject="resize",
        )


def _per_channel(values: tuple[float, ...], form: PictureForm) -> Array:
    numbers = np.array(values, np.float32)
    return numbers.reshape(-1, 1, 1) if form.is_first else numbers


def read_pixels(path: Path) -> Pixels:
    """The pixels of a picture file, height x width x 3, RGB; of 16 bits the upper 8, rounded.

    Raises:
        InputError: It cannot be decoded, or has more than 16 bits per channel.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            mode, pixels = image.mode, _to_rgb(image)
    except Exception as error:  # whatever damaged bytes make of a decoder: SyntaxError, struct's...
        raise InputError(
            f"Input file '{path}' is no readable {path.suffix} file of numbers or pixels.",
            subject=str(path),
        ) from error
    if pixels is None:
        raise InputError(
            f"Input file '{path}' has pixels of 32 bits (Pillow's mode {mode}), allowed: 8 or 16"
            " bits per channel.",
            subject=str(path),
        )
    return pixels


def _to_rgb(image: Any) -> Pixels | None:
    """The pixels of a decoded picture; None where 8 bits do not say what they are.

    Pillow would cut what is beyond 255 off: a picture of 16 bits would be white.
    """
    if image.mode.startswith("I;16"):
        grey = np.asarray(image).astype(np.uint32)
        return np.repeat(((grey + 128) // 257).astype(np.uint8)[:, :, None], 3, axis=2)
    if image.mode in ("I", "F"):
        return None
    image.info.pop("transparency", None)  # is left out anyway; of a palette's Pillow would warn
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
