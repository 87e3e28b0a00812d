"""From flags to how pictures become inputs."""

from __future__ import annotations

import re
from dataclasses import asdict

from partita.cli.flags import PictureFlags
from partita.cli.functions import load_function
from partita.errors import InputError
from partita.quantisation.pictures import Preparation, Size
from partita.streams import Prepare

_SIZE = re.compile(r"^(\d{1,6})(?:x(\d{1,6}))?$")


def read_pictures(flags: PictureFlags) -> Preparation | Prepare:
    """The preparation that flags ask for, or the user's function.

    Raises:
        InputError: A flag is not understood, is not allowed, or goes with no function.
    """
    given = {name: text for name, text in asdict(flags).items() if text is not None}
    if flags.prepare is not None:
        others = [f"--{name}" for name in given if name != "prepare"]
        if others:
            raise InputError(
                f"{others[0]} does not go with --prepare, whose function prepares alone.",
                subject=others[0],
            )
        return load_function(flags.prepare, "--prepare", "frames:prepare")
    resize, crop = _parse_size("--resize", flags.resize), _parse_size("--crop", flags.crop)
    try:
        return Preparation(
            resize=resize,
            crop=(crop, crop) if isinstance(crop, int) else crop,
            color=flags.color or "rgb",
            layout=flags.layout,
            mean=_parse_numbers("--mean", flags.mean),
            std=_parse_numbers("--std", flags.std),
        )
    except InputError as error:
        raise InputError(f"--{error.message}", subject=f"--{error.subject}") from error


def _parse_size(flag: str, text: str | None) -> int | Size | None:
    if text is None:
        return None
    match = _SIZE.match(text)
    if match is None:
        raise InputError(
            f"{flag} is '{text}', allowed: pixels, as 224, or height and width, as 480x640.",
            subject=flag,
        )
    height, width = match.groups()
    return int(height) if width is None else (int(height), int(width))


def _parse_numbers(flag: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        raise InputError(
            f"{flag} is '{text}', allowed: a number, or one for each channel with commas between.",
            subject=flag,
        ) from None
