"""Frames of videos: files, cameras, addresses and pipes, all decoded by FFmpeg's libraries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from partita.errors import InputError, first_line, how_to_install
from partita.quantisation.pictures import MOST_PIXELS, Pixels
from partita.streams.arrays import is_array_stream, read_arrays
from partita.streams.items import Item, bad_item, first_number, name_frame, undecodable
from partita.streams.pipe import Pipe

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame

#: Name of frames that come through standard input, and its number.
PIPE_NAME, _STDIN = "stdin", 0
#: JPEG pictures one after the other: how they begin, FFmpeg's name, and that no more than the first
#: is looked at to know so: the next ones may come slowly.
_JPEG, _JPEGS = b"\xff\xd8\xff", "mjpeg"
#: Formats whose files say at their head how long they are, FFmpeg's unit of that, and what may be
#: missing: heads are right to some frames. Not tuned.
_TELLING, _MICROSECONDS, _MOST_MISSING_S = {"matroska", "mov", "avi"}, 1e6, 1.0
_AT_ONCE = {"probesize": "32", "analyzeduration": "0", "fpsprobesize": "0"}


class VideoFile:
    """A video file; a second run goes on after the last frame that has an answer."""

    is_live = False
    waits = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        """Raise where it is no video; see :class:`~partita.streams.items.Source`."""
        if not self._path.is_file():
            what = "is no regular file" if self._path.exists() else "does not exist"
            raise InputError(f"Stream '{self._path}' {what}.", subject=str(self._path))
        open_video(str(self._path), str(self._path)).close()

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the frames; see :class:`~partita.streams.items.Source`."""
        name = self._path.name
        first = first_number(name, written)
        container = open_video(str(self._path), str(self._path))
        frames = read_frames(container, name, 0, _told_length_s(container))
        for number, item in enumerate(frames):
            if number >= first:
                yield item


class LiveVideo:
    """A camera of this machine, or an address: numbers go on from run to run."""

    is_live = True
    waits = False

    def __init__(self, text: str) -> None:
        self._text = text
        self.name = _name_live(text)

    def check(self) -> None:
        """Raise where it cannot be read at all; see :class:`~partita.streams.items.Source`."""
        import_av()

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the frames; see :class:`~partita.streams.items.Source`."""
        driver = "v4l2" if "://" not in self._text else None
        container = open_video(self._text, self.name, driver)
        return read_frames(container, self.name, first_number(self.name, written))


class PipedVideo:
    """Standard input: arrays as NumPy saves them, or whatever FFmpeg reads without going back.

    Args:
        file: Its number, where it is another pipe.
    """

    is_live = False
    waits = False

    def __init__(self, file: int = _STDIN) -> None:
        self._file = file

    def check(self) -> None:
        """Nothing shows before there are bytes; see :class:`~partita.streams.items.Source`."""

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the frames; see :class:`~partita.streams.items.Source`."""
        pipe, first = Pipe(self._file, stop), first_number(PIPE_NAME, written)
        if is_array_stream(pipe):
            return read_arrays(pipe, PIPE_NAME, first)
        kind = _JPEGS if pipe.peek(len(_JPEG)) == _JPEG else None
        return read_frames(open_video(pipe, "-", kind), PIPE_NAME, first)


def import_av() -> Any:
    """The package that decodes videos.

    Raises:
        InputError: It is not installed.
    """
    try:
        import av
    except ModuleNotFoundError as error:
        raise InputError(
            f"Videos and cameras need the streams part: {how_to_install('streams')} ({error}).",
            subject="--stream",
        ) from error
    return av


def open_video(target: str | Pipe, called: str, kind: str | None = None) -> InputContainer:
    """A container with a video in it, ready to be read.

    Args:
        called: Its name in messages.
        kind: FFmpeg's name of the format or the input device; None where it is to be found out.

    Raises:
        InputError: It cannot be read, or holds no video.
    """
    av, options = import_av(), _AT_ONCE if kind == _JPEGS else {}
    try:
        container: InputContainer = av.open(target, format=kind, options=dict(options))
    except Exception as error:  # FFmpeg's own, the system's, and what damaged bytes make of either
        if isinstance(target, Pipe) and target.is_empty:
            raise InputError(
                f"Stream '{called}' is empty: it ended before anything came.", subject=called
            ) from error
        raise InputError(
            f"Stream '{called}' cannot be read: {_words(error)}.", subject=called
        ) from error
    if not container.streams.video:
        container.close()
        raise InputError(f"Stream '{called}' holds no video.", subject=called)
    return container


def read_frames(
    container: InputContainer, name: str, first: int, length_s: float | None = None
) -> Iterator[Item]:
    """An iterator over the frames of a video, numbered from ``first``; closes it at its end.

    A part that cannot be decoded is one bad item: the frames after it may be good again. So is the
    end of a file that is cut off.

    Args:
        length_s: How long it should be; None where that is not known.

    Raises:
        InputError: The container cannot be read on.
    """
    number, left_s = first, length_s or 0.0
    with closing(container):
        packets = container.demux(container.streams.video[0])
        while True:
            try:
                packet = next(packets, None)
            except Exception as error:
                frame = name_frame(name, number)
                raise InputError(
                    f"Stream '{name}' cannot be read on from '{frame}': {_words(error)}.",
                    subject=frame,
                ) from error
            if packet is None:
                if left_s > _MOST_MISSING_S:
                    why = f"the file ends there, {left_s:.1f} s before the end that it tells of"
                    yield bad_item(name_frame(name, number), why)
                return
            try:
                frames = packet.decode()
            except Exception as error:
                yield bad_item(name_frame(name, number), _words(error))
                number += 1
                continue
            for picture in frames:
                yield _make_item(name_frame(name, number), picture)
                number += 1
                left_s = min(left_s, (length_s or 0.0) - _end_s(picture))


def _told_length_s(container: InputContainer) -> float | None:
    """How long the video is by its file's head; None where that says nothing, or is estimated."""
    video = container.streams.video[0]
    if not _TELLING & set(container.format.name.split(",")):
        return None
    if video.duration is not None and video.time_base is not None:
        return float((video.start_time or 0) + video.duration) * float(video.time_base)
    if len(container.streams) == 1 and container.duration is not None:
        return (max(container.start_time, 0) + container.duration) / _MICROSECONDS
    return None


def _end_s(frame: VideoFrame) -> float:
    """When a frame gives way to the next."""
    lasts_s = float((frame.duration or 0) * frame.time_base) if frame.time_base else 0.0
    return (frame.time or 0.0) + lasts_s


def _make_item(name: str, frame: VideoFrame) -> Item:
    if frame.is_corrupt:
        return bad_item(name, "parts of it are missing")
    if frame.width * frame.height > MOST_PIXELS:
        return bad_item(name, f"it has {frame.height}x{frame.width} pixels")
    return Item(name, partial(_read_pixels, name, frame))


def _read_pixels(name: str, frame: VideoFrame) -> Pixels:
    try:
        pixels = cast("Pixels", frame.to_ndarray(format="rgb24"))
    except Exception as error:  # of a format of pixels that cannot be converted
        raise undecodable(name, _words(error)) from error
    return pixels


def _name_live(text: str) -> str:
    """A name for a camera or an address: without a password, and one that a file may have."""
    parts = urlsplit(text)
    plain = f"{parts.hostname or ''}{parts.path}"
    return re.sub(r"[^\w.-]+", "_", plain).strip("_") or "camera"


def _words(error: BaseException) -> str:
    """Why FFmpeg refuses, without its numbers."""
    words = getattr(error, "strerror", None)
    return str(words) if words else first_line(error)
