"""The workers of a session: presence, heartbeats and calls."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import msgspec

from partita.errors import LinkError, RunError
from partita.fabric import Beat, Endpoint, Failure, decode_note, encode_note
from partita.leader.heartbeats import Heartbeats
from partita.recent import Recent
from partita.version import VERSION
from partita.worker.messages import (
    PROTOCOL_VERSION,
    Hello,
    Info,
    OfEpoch,
    check_version,
    decode_message,
    encode_message,
)

#: Calls answer within milliseconds; one that hashes or loads on a slow disk has its own timeout.
CALL_TIMEOUT_S = 10.0
#: A worker that hangs must not hold up a change of plan, and less the end of a session: whoever
#: heard of that goes on with it.
_RETIRE_TIMEOUT_S, _END_TIMEOUT_S = 2.0, 0.5
#: Interval at which presence is looked up, beside the news of it.
_POLL_S = 0.1
#: Endpoints that left, workers or not; each leader that comes by has a name of its own.
_MOST_GONE = 1024
#: Of no epoch, and no step.
_OWN_BEAT = encode_note(Beat(0, 0))
T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


class Listener(Protocol):
    """Gets losses and failures, on the endpoint's threads: it must return at once."""

    def on_lost(self, device: str, why: str) -> None:
        """``device`` is dead or hangs; ``why`` is for people."""

    def on_found(self, device: str) -> None:
        """``device`` is there, for the first time or again."""

    def on_failure(self, failure: Failure) -> None:
        """A worker reports that a step failed."""

    def on_fault(self, error: RunError) -> None:
        """The network lost or refused something of the leader's own."""


class WorkerGroup:
    """Calls to a set of workers, and their heartbeats.

    Args:
        names: Devices that the program uses.

    Attributes:
        beats: Their heartbeats, and the leader's own.
        progress_s: When a worker last reported another count of steps, on the clock of silence.
    """

    def __init__(self, endpoint: Endpoint, names: Iterable[str]) -> None:
        self.endpoint = endpoint
        self.names: tuple[str, ...] = tuple(names)
        self.listener: Listener | None = None
        self.beats = Heartbeats()
        self.progress_s = self.beats.now_s
        self._finished: dict[str, int] = {}
        self._alive: set[str] = set()
        self._gone = Recent[str, None](_MOST_GONE)
        self._owed: defaultdict[str, set[int]] = defaultdict(set)
        self._change = threading.Condition()
        self._is_over = False
        endpoint.on_notify(self._on_note)
        endpoint.on_error(self._on_fault)
        endpoint.watch(self._on_presence)

    def wait(self, timeout_s: float, names: Collection[str] | None = None) -> None:
        """Wait until some workers are there; by default all members, also those added meanwhile.

        Raises:
            LinkError: Some are not after ``timeout_s``; the message names them.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._change:
            while missing := [n for n in names or self.names if n not in self.endpoint.peers()]:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise _missing(missing, self.endpoint.peers(), timeout_s)
                self._change.wait(min(left_s, _POLL_S))
        # Visible, so that workers notice when their leader is gone; they are there by now, and
        # know whether another leader has the name.
        self.endpoint.announce(b"")

    def greet(self, names: Sequence[str] | None = None) -> dict[str, Info]:
        """Facts about each worker, once its version is checked.

        Args:
            names: Those to ask, members or not; all members by default.

        Raises:
            RunError: One runs another version; the message names both.
        """
        mine = (VERSION, PROTOCOL_VERSION)
        hello = Hello(*mine)
        infos = self.each(lambda name: self.ask(name, "hello", hello, Info), names)
        for name, info in infos.items():
            check_version(mine, (info.version, info.protocol), name)
        return infos

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
            LinkError: It does not answer.
            RunError: It refuses.
        """
        return decode_message(self._call(device, method, message, timeout_s), answer)

    def tell(
        self, device: str, method: str, message: msgspec.Struct, timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        """Call a method without an answer; errors as in :meth:`ask`."""
        self._call(device, method, message, timeout_s)

    def _call(self, device: str, method: str, message: msgspec.Struct, timeout_s: float) -> bytes:
        """The answer of a worker; one that has left is not waited for."""
        if device not in self._gone:
            try:
                return self.endpoint.call(device, method, encode_message(message), timeout_s)
            except RunError:
                if device not in self._gone:
                    raise
        raise _left(device, method)

    def require(self, names: Iterable[str], method: str) -> None:
        """Raise unless all of some workers are still there, without asking them.

        Args:
            method: What they would be asked for.

        Raises:
            LinkError: One has left.
        """
        for name in names:
            if self.has_left(name):
                raise _left(name, method)

    def end(self) -> None:
        """Let what is being deployed end: nobody is going to use it."""
        self._is_over = True

    def check_wanted(self) -> None:
        """Raise once the session has ended, or its start was given up.

        Raises:
            RunError: It has.
        """
        if self._is_over:
            raise RunError("The session ended while a plan was deployed.")

    def has_left(self, device: str) -> bool:
        """Whether a worker was there and is not any more."""
        return device in self._gone

    def each(self, call: Callable[[str], R], names: Sequence[str] | None = None) -> dict[str, R]:
        """``call(name)`` of each worker, all at the same time; the first error counts.

        A caller that is interrupted, by Ctrl-C for instance, waits for none of them any more.
        """
        names = self.names if names is None else names
        if not names:
            return {}
        pool, waits = ThreadPoolExecutor(len(names), "leader-call"), True
        try:
            return dict(zip(names, pool.map(call, names), strict=True))
        except (KeyboardInterrupt, SystemExit):
            waits = False
            raise
        finally:
            pool.shutdown(wait=waits, cancel_futures=True)

    def beat(self) -> None:
        """Let the leader hear its own heartbeat, by the way that those of workers take."""
        with contextlib.suppress(RunError):  # closed
            self.endpoint.notify(self.endpoint.name, _OWN_BEAT)

    def add(self, names: Iterable[str]) -> None:
        """Take more workers into the group; call :meth:`wait` and :meth:`greet` next."""
        self.names = tuple(dict.fromkeys((*self.names, *names)))

    def remove(self, device: str) -> None:
        """Take a lost device out of the group."""
        self.names = tuple(name for name in self.names if name != device)
        self.beats.excuse((device,))

    def retire(self, epoch: int, device: str) -> None:
        """Take an epoch down on a worker; one that does not answer is told when it is back.

        At the end of the session nobody asks again who has not answered.
        """
        try:
            is_hung = self._is_over and bool(self._owed.get(device))
            if is_hung or device not in self.names or device not in self.endpoint.peers():
                raise _left(device, "retire")
            timeout_s = _END_TIMEOUT_S if self._is_over else _RETIRE_TIMEOUT_S
            self.tell(device, "retire", OfEpoch(epoch), timeout_s)
        except RunError:
            self._owed[device].add(epoch)

    def settle(self, device: str, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Take down what a worker was not told in time to take down.

        Raises:
            RunError: It does not answer.
        """
        for epoch in self._owed.pop(device, ()):
            self.tell(device, "retire", OfEpoch(epoch), timeout_s)

    def take_back(self, device: str) -> Info:
        """Facts about a worker that is there (again), rid of epochs that were over meanwhile.

        Raises:
            RunError: It does not answer, or runs another version.
        """
        info = self.greet((device,))[device]
        with contextlib.suppress(RunError):  # gone again: whatever it holds ends with it
            self.settle(device, _RETIRE_TIMEOUT_S)
        self.add((device,))
        return info

    def _on_note(self, source: str, body: bytes) -> None:
        note = decode_note(source, body)
        if isinstance(note, Beat):
            self._on_beat(source, note.finished)
        elif isinstance(note, Failure) and note.device == source and self.listener is not None:
            self.listener.on_failure(note)

    def _on_beat(self, source: str, finished: int) -> None:
        self.beats.hear(source)
        if source != self.endpoint.name and self._finished.get(source) != finished:
            self._finished[source] = finished
            self.progress_s = self.beats.now_s

    def _on_presence(self, name: str, alive: bool) -> None:
        was_there = name in self._alive
        (self._alive.add if alive else self._alive.discard)(name)
        if alive:
            self._gone.pop(name, None)
        elif was_there:
            self._gone[name] = None
        with self._change:
            self._change.notify_all()
        if self.listener is None or alive == was_there:
            return
        if alive:
            self.listener.on_found(name)
        elif name in self.names:
            self.listener.on_lost(name, "it left the network")

    def _on_fault(self, error: RunError) -> None:
        is_strangers = error.device not in {*self.names, self.endpoint.name, ""}
        if self.listener is not None and not is_strangers:
            self.listener.on_fault(error)


def _left(device: str, method: str) -> LinkError:
    return LinkError(
        f"Device '{device}' was lost before the plan ran (asked for: {method}). Look at its worker,"
        " or plan without it.",
        device=device,
    )


def _missing(missing: Sequence[str], there: Iterable[str], timeout_s: float) -> LinkError:
    present = ", ".join(repr(name) for name in sorted(there)) or "none"
    names = ", ".join(repr(name) for name in missing)
    word, verb = ("Worker", "is") if len(missing) == 1 else ("Workers", "are")
    return LinkError(
        f"{word} {names} {verb} not there after {timeout_s:g} s: found {present}. "
        "Why, says partita doctor --cluster FILE, with the same credentials; a worker starts with "
        f"partita worker --name {missing[0]} --cluster-name NAME --listen ADDRESS, all as in the "
        "cluster file.",
        device=missing[0],
    )
