"""Pictures, videos and pipes made for tests."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from PIL import Image

from partita.errors import InputError
from partita.quantisation.pictures import Pixels
from partita.streams import Item, Source

Array = np.ndarray[Any, Any]


def draw_pixels(level: int, size: tuple[int, int] = (16, 16)) -> Pixels:
    """A picture of one grey, which survives every codec."""
    return np.full((*size, 3), level, np.uint8)


def write_pictures(folder: Path, count: int, kind: str = "png") -> list[str]:
    """Pictures in greys 0, 10, 20...; their names."""
    folder.mkdir(exist_ok=True)
    names = [f"{number:03d}.{kind}" for number in range(count)]
    for number, name in enumerate(names):
        Image.fromarray(draw_pixels(10 * number)).save(folder / name)
    return names


def write_video(path: Path, count: int, codec: str = "mpeg4", size: int = 64) -> Path:
    """A video in greys 0, 10, 20..., a frame each."""
    import av

    with av.open(str(path), "w") as container:
        video: Any = container.add_stream(codec, rate=10)
        video.width = video.height = size
        video.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(draw_pixels(10 * number, (size, size)))
            container.mux(video.encode(frame))
        container.mux(video.encode())
    return path


def jpegs(count: int) -> bytes:
    """Pictures in greys 0, 10, 20... as JPEG, one after the other."""
    packed = io.BytesIO()
    for number in range(count):
        Image.fromarray(draw_pixels(10 * number, (64, 64))).save(packed, "JPEG")
    return packed.getvalue()


def saved(*arrays: Array) -> bytes:
    """Arrays as NumPy saves them, one after the other."""
    packed = io.BytesIO()
    for array in arrays:
        np.save(packed, array)
    return packed.getvalue()


@contextmanager
def piped(data: bytes, *, ends: bool = True) -> Iterator[int]:
    """The number of a pipe that has ``data`` in it; without an end it stays open."""
    reading, writing = os.pipe()

    def write() -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(writing, view) :]
        if ends:
            os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield reading
    finally:
        thread.join(10)
        os.close(reading)
        if not ends:
            os.close(writing)


def read_source(source: Source, *written: str) -> list[Item]:
    """All inputs of a source that ends."""
    source.check()
    return list(source.items(written, Event()))


def grey_of(item: Item) -> int:
    """The grey of an input's picture, to the next ten."""
    pixels = item.load()
    assert isinstance(pixels, np.ndarray)
    return round(float(pixels.mean()) / 10) * 10


def fault_of(item: Item) -> str:
    """Why an input cannot be decoded; empty where it can."""
    try:
        item.load()
    except InputError as error:
        return error.message
    return ""
