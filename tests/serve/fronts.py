"""Fronts over sessions that answer when they are told to, and over workers in this process."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.memory_lab import memory_lab
from tests.worker.tiny import tiny_chain

from partita.cluster import Device
from partita.errors import PartitaError, RunError
from partita.leader import DeployOptions, History, deploy
from partita.program import Program
from partita.serve import Front, listen_at, make_app, make_server, url_of

#: No answer of these tests takes longer.
PATIENCE_S = 20.0


class HeldSession:
    """Takes as many requests as its program has in flight, and answers the oldest when told to."""

    def __init__(self, in_flight: int = 2, factor: float = 2.0) -> None:
        self.program: Program = tiny_chain(1, 1, in_flight).program
        self.factor = factor
        self.asked = threading.Semaphore(0)
        self.is_open = True
        self.error: PartitaError | None = None
        self.history = History()
        self.fallback: str | None = None
        self._room = threading.Semaphore(in_flight)
        self._held: deque[tuple[Mapping[str, Any], Future[Any]]] = deque()

    def submit(self, feeds: Mapping[str, Any]) -> Future[Any]:
        """Hold a request; wait while there is no room."""
        self._room.acquire()
        future: Future[Any] = Future()
        if not self.is_open:
            raise RunError("The session is closed; deploy the plan again.")
        self._held.append((feeds, future))
        self.asked.release()
        return future

    def follow(self, before: History) -> None:
        """Go on from what was before."""
        self.history = before

    def await_asked(self, count: int = 1) -> None:
        """Wait until so many more requests are held."""
        for _ in range(count):
            assert self.asked.acquire(timeout=PATIENCE_S)

    def answer(self, count: int = 1, error: PartitaError | None = None) -> None:
        """Answer the oldest requests: their input times a factor, or an error."""
        for _ in range(count):
            feeds, future = self._held.popleft()
            if error is None:
                future.set_result({"t0": feeds["input"] * np.float32(self.factor)})
            else:
                future.set_exception(error)
            self._room.release()

    def close(self) -> None:
        """End with an error what is held."""
        self.is_open = False
        self.answer(len(self._held), RunError("The session was closed before the answer came."))
        self._room.release(1000)


@dataclass
class Source:
    """A model that is deployed by what is given."""

    name: str
    start: Callable[[], contextlib.AbstractContextManager[Any]]

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """One more session."""
        return self.start()


@dataclass
class Held:
    """A source of sessions that answer when they are told to."""

    name: str = "tiny"
    in_flight: int = 2
    sessions: list[HeldSession] = field(default_factory=list)

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        """A session whose answers are its input, times one more than that of the one before."""
        session = HeldSession(self.in_flight, len(self.sessions) + 2.0)
        self.sessions.append(session)
        try:
            yield session
        finally:
            session.close()


@contextlib.contextmanager
def serving(front: Front, grace_s: float = PATIENCE_S) -> Iterator[str]:
    """Answer for ``front`` on a thread; the URL."""
    with listen_at("127.0.0.1:0") as listener:
        server = make_server(make_app(front), front, grace_s=grace_s)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def tiny_front(names: Sequence[str] = ("tiny",), *, queue: int = 8) -> Iterator[Front]:
    """Models of a chain over two workers in this process, each with a leader of its own."""
    tiny = tiny_chain(2, 2, in_flight=2, credit=2)
    with memory_lab([Device("d0"), Device("d1")]) as lab:
        leaders = iter(range(1000))

        @contextlib.contextmanager
        def start() -> Iterator[Any]:
            own = lab.fabric.endpoint(f"leader-{next(leaders)}")
            with (
                contextlib.closing(own) as endpoint,
                deploy(tiny, endpoint, DeployOptions(trace=False)) as session,
            ):
                yield session

        with Front([Source(name, start) for name in names], queue=queue) as front:
            yield front
