"""Pictures and arrays of a folder, in the order of names; those that are put there later, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from threading import Event

from partita.quantisation.samples import is_known, list_files, read_content
from partita.streams.items import Item

#: Seconds between two looks at a folder that is followed. Not tuned.
_LOOK_S = 0.2
#: What shows that a file is still written: its bytes, and when it was changed.
_State = tuple[int, int]


class FolderSource:
    """A folder, or one file; a followed folder has no end.

    Args:
        follows: Whether files that come later are inputs, too: once they do not grow any more.
    """

    is_live = False

    def __init__(self, path: Path, *, follows: bool) -> None:
        self._path = path
        self.waits = follows

    def check(self) -> None:
        """Raise where there is no input; see :class:`~partita.streams.items.Source`."""
        if not (self.waits and self._path.is_dir()):
            list_files(self._path)

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the files; see :class:`~partita.streams.items.Source`."""
        if not self.waits:
            for path in list_files(self._path):
                if path.name not in written:
                    yield Item(path.name, partial(read_content, path))
            return
        seen, before = set(written), dict[str, _State]()
        while not stop.is_set():
            now = self._look(seen)
            for name in sorted(name for name in now if before.get(name) == now[name]):
                seen.add(name)
                yield Item(name, partial(read_content, self._path / name))
            before = now
            stop.wait(_LOOK_S)

    def _look(self, seen: set[str]) -> dict[str, _State]:
        """The files that were not seen before, and how they are now; some may go meanwhile."""
        found = {}
        for path in self._path.iterdir() if self._path.is_dir() else ():
            if path.name not in seen and is_known(path):
                try:
                    state = path.stat()
                except OSError:
                    continue
                found[path.name] = (state.st_size, state.st_mtime_ns)
        return found
