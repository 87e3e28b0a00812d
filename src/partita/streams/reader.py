"""A thread that reads a stream ahead, at a pace, into a queue with an end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from partita.errors import PartitaError, RunError, first_line
from partita.streams.items import Item, Source

#: Inputs that are read ahead where nothing is lost by it; where the oldest is dropped, one, so that
#: what is answered is new. Not tuned.
_AHEAD, _NEWEST = 4, 1


@dataclass(frozen=True, eq=False)
class Read:
    """An input, and when it was read (seconds of the monotonic clock)."""

    item: Item
    at_s: float


class Pace:
    """When inputs are due that come at a rate; nobody catches up on more than one.

    Args:
        rate: Inputs per second; None lets all go at once.
    """

    def __init__(self, rate: float | None) -> None:
        self._interval_s = 0.0 if rate is None else 1 / rate
        self._due_s = -inf

    def early_s(self, now_s: float) -> float:
        """For how long the next input is not due yet; 0 or less where it is."""
        return self._due_s - now_s

    def go(self, now_s: float) -> None:
        """Note that an input goes now."""
        is_late = now_s - self._due_s >= self._interval_s
        self._due_s = (now_s if is_late else self._due_s) + self._interval_s


class Reader:
    """Reads a source; all is called in one thread but what the thread of the reader does.

    Args:
        written: Names of inputs that are not wanted.
        rate: Most inputs per second; None for all. Of a live source those between are left out,
            others are read later.
        drops: Whether the oldest makes room for a new one; else reading waits.
        changed: Notified when there is more, or an end.

    Attributes:
        dropped: Inputs that made room.
        error: What ended the stream; None where it ended by itself.
    """

    def __init__(
        self,
        source: Source,
        written: Collection[str],
        rate: float | None,
        *,
        drops: bool,
        changed: threading.Condition,
    ) -> None:
        self.dropped = 0
        self.error: PartitaError | None = None
        self._source = source
        self._written = written
        self._pace = Pace(rate)
        self._room = _NEWEST if drops else _AHEAD
        self._drops = drops
        self._changed = changed
        self._queue: deque[Read] = deque()
        self._is_over = False
        self._asked_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="stream/read", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    @property
    def has_next(self) -> bool:
        """Whether an input is there."""
        return bool(self._queue)

    @property
    def is_over(self) -> bool:
        """Whether there will be no more."""
        return self._is_over and not self._queue

    @property
    def silent_s(self) -> float:
        """For how long the source has been asked for an input in vain."""
        asked_s = self._asked_s
        return 0.0 if asked_s is None else time.monotonic() - asked_s

    def take(self) -> Read:
        """The oldest input that is there; to be called while ``changed`` is held."""
        read = self._queue.popleft()
        self._changed.notify_all()
        return read

    def stop(self) -> None:
        """Read no more, and forget what was read; a read that is stuck is left behind."""
        self._stop.set()
        with self._changed:
            self._queue.clear()
            self._is_over = True
            self._changed.notify_all()

    def _read(self) -> None:
        error: PartitaError | None = None
        try:
            self._read_all()
        except PartitaError as known:
            error = known
        except Exception as odd:  # of a source that a program gives
            error = RunError(f"The stream cannot be read: {type(odd).__name__}: {first_line(odd)}.")
        with self._changed:
            self.error, self._is_over, self._asked_s = error, True, None
            self._changed.notify_all()

    def _read_all(self) -> None:
        self._asked_s = time.monotonic()
        items = self._source.items(self._written, self._stop)
        while (item := next(items, None)) is not None and not self._stop.is_set():
            self._asked_s = None
            early_s = self._pace.early_s(time.monotonic())
            if early_s <= 0 or not self._source.is_live:
                if early_s > 0 and self._stop.wait(early_s):
                    return
                now_s = time.monotonic()
                self._pace.go(now_s)
                self._put(Read(item, now_s))
            self._asked_s = time.monotonic()

    def _put(self, read: Read) -> None:
        with self._changed:
            if self._drops and len(self._queue) >= self._room:
                self._queue.popleft()
                self.dropped += 1
            while len(self._queue) >= self._room and not self._stop.is_set():
                self._changed.wait()
            if not self._stop.is_set():
                self._queue.append(read)
                self._changed.notify_all()
