"""Which source a text means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from threading import Event

from partita.errors import InputError
from partita.quantisation.samples import is_known
from partita.streams.folder import FolderSource
from partita.streams.items import Content, Item, Source, ready_item
from partita.streams.video import LiveVideo, PipedVideo, VideoFile


class GivenSource:
    """Inputs that a program gives: pairs of a name and what it holds."""

    is_live = False
    waits = True

    def __init__(self, pairs: Iterable[tuple[str, Content]]) -> None:
        self._pairs = pairs

    def check(self) -> None:
        """Nothing shows before they are asked for; see :class:`~partita.streams.items.Source`."""

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the inputs; see :class:`~partita.streams.items.Source`."""
        for name, content in self._pairs:
            if name not in written:
                yield ready_item(name, content)


def find_source(text: str, *, follows: bool = False) -> Source:
    """The source that a text means; nothing is read yet.

    Args:
        text: A folder, a picture or array, a video file, a camera (``/dev/video0``), an address
            (``rtsp://...``), or ``-`` for standard input.
        follows: Whether files that come into the folder later are inputs, too.

    Raises:
        InputError: It is no folder, and is to be followed.
    """
    path = Path(text)
    if follows and not path.is_dir():
        raise InputError(f"Stream '{text}' is no folder: only folders are followed.", subject=text)
    if text == "-":
        return PipedVideo()
    if "://" in text or path.is_char_device():
        return LiveVideo(text)
    if path.is_dir() or is_known(path):
        return FolderSource(path, follows=follows)
    return VideoFile(path)
