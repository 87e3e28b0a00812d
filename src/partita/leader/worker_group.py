"""The workers of a session: who is there, who still turns, and what they report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import msgspec

from partita.errors import RunError
from partita.fabric import Beat, Endpoint, Failure, decode_note
from partita.version import VERSION
from partita.worker.messages import (
    PROTOCOL_VERSION,
    Hello,
    Info,
    check_version,
    decode_message,
    encode_message,
)

CALL_TIMEOUT_S = 10.0
T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


class Listener(Protocol):
    """Who wants to hear of trouble."""

    def on_lost(self, device: str, why: str) -> None:
        """``device`` is dead or hangs."""

    def on_failure(self, failure: Failure) -> None:
        """A worker says that a step failed."""

    def on_fault(self, error: RunError) -> None:
        """The network lost or refused something of the leader's own."""


class WorkerGroup:
    """Calls to a set of workers, and their pulse.

    Args:
        endpoint: The leader's endpoint.
        names: Devices that the program uses.

    Attributes:
        progress_s: When a worker last reported a finished step, on the monotonic clock.
    """

    def __init__(self, endpoint: Endpoint, names: Iterable[str]) -> None:
        self.endpoint = endpoint
        self.names: tuple[str, ...] = tuple(names)
        self.listener: Listener | None = None
        self.progress_s = time.monotonic()
        self._beats: dict[str, float] = {}
        self._finished: dict[str, int] = {}
        self._alive: set[str] = set()
        self._gone: set[str] = set()
        self._change = threading.Condition()
        endpoint.on_notify(self._take_note)
        endpoint.on_error(self._take_fault)
        endpoint.watch(self._watch)
        # Visible, so that workers notice when their leader is gone.
        endpoint.announce(b"")

    def wait(self, timeout_s: float) -> None:
        """Wait until all workers are there.

        Raises:
            RunError: Some are not after ``timeout_s``; the message names them.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._change:
            while missing := [n for n in self.names if n not in self.endpoint.peers()]:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise _missing(missing, self.endpoint.peers(), timeout_s)
                self._change.wait(min(left_s, 0.1))

    def greet(self) -> dict[str, Info]:
        """Facts about each worker, once its version is checked.

        Raises:
            RunError: One runs another version; the message names both.
        """
        mine = (VERSION, PROTOCOL_VERSION)
        hello = Hello(*mine)
        found = self.each(lambda name: self.ask(name, "hello", hello, Info))
        for name, info in found.items():
            check_version(mine, (info.version, info.protocol), name)
        return found

    def ask(
        self,
        device: str,
        method: str,
        message: msgspec.Struct,
        answer: type[T],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> T:
        """A worker's answer to ``message``.

        Raises:
            RunError: It does not answer, or refuses.
        """
        return decode_message(self._call(device, method, message, timeout_s), answer)

    def tell(
        self, device: str, method: str, message: msgspec.Struct, timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        """Have a worker do something that has no answer; errors as in :meth:`ask`."""
        self._call(device, method, message, timeout_s)

    def _call(self, device: str, method: str, message: msgspec.Struct, timeout_s: float) -> bytes:
        """The answer of a worker; one that has left is not waited for."""
        if device not in self._gone:
            try:
                return self.endpoint.call(device, method, encode_message(message), timeout_s)
            except RunError:
                if device not in self._gone:
                    raise
        raise RunError(
            f"Device '{device}' was lost before the plan ran (asked for: {method}). Look at its"
            " worker, or plan without it.",
            device=device,
        )

    def each(self, work: Callable[[str], R], names: Sequence[str] | None = None) -> dict[str, R]:
        """``call(name)`` of each worker, all at the same time; the first error counts."""
        names = self.names if names is None else names
        if not names:
            return {}
        with ThreadPoolExecutor(len(names), "leader-call") as pool:
            return dict(zip(names, pool.map(work, names), strict=True))

    def expect_beats(self, names: Iterable[str] = ()) -> None:
        """Count the silence of ``names`` too, and everybody's from now on."""
        self._beats = dict.fromkeys([*self._beats, *names], time.monotonic())

    def excuse(self, names: Iterable[str]) -> None:
        """Expect no beat of workers that have no epoch."""
        self._beats = {n: s for n, s in self._beats.items() if n not in set(names)}

    def silent(self, longer_than_s: float) -> Mapping[str, float]:
        """The workers that were not heard of for so long, with the seconds."""
        now_s = time.monotonic()
        ages = {name: now_s - at_s for name, at_s in self._beats.items()}
        return {name: age for name, age in ages.items() if age > longer_than_s}

    def hire(self, names: Iterable[str]) -> None:
        """Count more workers to the crew; call :meth:`wait` and :meth:`greet` next."""
        self.names = tuple(dict.fromkeys((*self.names, *names)))

    def drop(self, device: str) -> None:
        """Expect nothing more of a lost device."""
        self.names = tuple(name for name in self.names if name != device)
        self._beats.pop(device, None)

    def _take_note(self, source: str, body: bytes) -> None:
        note = decode_note(source, body)
        if isinstance(note, Beat):
            self._take_beat(source, note.finished)
        elif isinstance(note, Failure) and self.listener is not None:
            self.listener.on_failure(note)

    def _take_beat(self, source: str, finished: int) -> None:
        now_s = time.monotonic()
        if source in self._beats:
            self._beats[source] = now_s
        if self._finished.get(source) != finished:
            self._finished[source] = finished
            self.progress_s = now_s

    def _watch(self, name: str, alive: bool) -> None:
        was_there = name in self._alive
        (self._alive.add if alive else self._alive.discard)(name)
        if alive:
            self._gone.discard(name)
        elif was_there:
            self._gone.add(name)
        with self._change:
            self._change.notify_all()
        if not alive and was_there and name in self.names and self.listener is not None:
            self.listener.on_lost(name, "it left the network")

    def _take_fault(self, error: RunError) -> None:
        is_strangers = error.device not in {*self.names, self.endpoint.name, ""}
        if self.listener is not None and not is_strangers:
            self.listener.on_fault(error)


def _missing(missing: Sequence[str], there: Iterable[str], timeout_s: float) -> RunError:
    found = ", ".join(repr(name) for name in sorted(there)) or "none"
    names = ", ".join(repr(name) for name in missing)
    word, verb = ("Worker", "is") if len(missing) == 1 else ("Workers", "are")
    return RunError(
        f"{word} {names} {verb} not there after {timeout_s:g} s: found {found}. "
        f"Start it with: partita worker --name {missing[0]} --cluster-name NAME --listen ADDRESS,"
        " both as in the cluster file.",
        device=missing[0],
    )
