"""Damaged items of streams: pictures, videos, pipes, and files of answers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Event

import numpy as np
from PIL import Image

from partita.errors import InputError
from partita.program import TensorSpec
from partita.streams import JsonLines, Preparer, Source, find_source
from partita.streams.video import PipedVideo
from tests.mutations import Outcome, judge, mutate_bytes
from tests.streams.media import draw_pixels, jpegs, saved, write_video

_PREPARER = Preparer([TensorSpec("x", (1, 3, 16, 16), "float32")], None)
#: Items of a stream that are looked at: damage makes no stream longer than it was.
_MOST_ITEMS = 100


def try_streams(rng: Random, count: int, outcome: Outcome, folder: Path) -> None:
    """Streams with bytes changed: each input is decoded, or refused by name."""
    good = list(_good_streams(folder))
    for _ in range(count):
        name, data = rng.choice(good)
        damaged = mutate_bytes(data, rng)
        judge(outcome, _reading(folder / "damaged", name, damaged), damaged)


def _good_streams(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names, whose ends say what they are, and bytes: ``pipe`` comes through standard input."""
    pixels = np.random.default_rng(0).integers(0, 255, (20, 24, 3), np.uint8)
    for kind in ("png", "jpeg", "bmp", "webp"):
        packed = io.BytesIO()
        Image.fromarray(pixels).save(packed, kind)
        yield f"a.{kind}", packed.getvalue()
    yield "a.npy", saved(pixels)
    packed = io.BytesIO()
    np.savez(packed, x=np.zeros((1, 3, 16, 16), np.float32))
    yield "a.npz", packed.getvalue()
    for number, (name, codec) in enumerate(
        (("v.mp4", "mpeg4"), ("v.mp4", "libx264"), ("v.avi", "mjpeg"), ("v.mkv", "mpeg4"))
    ):
        path = write_video(folder / f"{number}{name}", 4, codec)
        yield name, path.read_bytes()
    yield "pipe", jpegs(3)
    yield "pipe", saved(draw_pixels(1), draw_pixels(2), draw_pixels(3))
    yield "pipe", write_video(folder / "piped.mkv", 4).read_bytes()
    yield "out.jsonl", b'{"name": "a", "outputs": {"y": [1]}}\n' * 3


def _reading(folder: Path, name: str, damaged: bytes) -> Callable[[], None]:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(damaged)

    def read() -> None:
        if name == "out.jsonl":
            JsonLines(str(path)).close()
        elif name == "pipe":
            with open(path, "rb") as file:
                _read_all(PipedVideo(file.fileno()))
        else:
            _read_all(find_source(str(path)))

    return read


def _read_all(source: Source) -> None:
    """Decode every input; the first that cannot be is raised after the last.

    Raises:
        InputError: One cannot be decoded, or the stream cannot be read on.
    """
    source.check()
    faults = []
    for number, item in enumerate(source.items((), Event())):
        assert number < _MOST_ITEMS
        try:
            _PREPARER.prepare(item)
        except InputError as error:
            faults.append(error)
    if faults:
        raise faults[0]
