"""Requests over HTTP for as long as a run lasts, for ``benchmarks.soak --front``."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Array
from benchmarks.recovery import Answers
from partita.leader import Session
from partita.serve import Front, listen_at, make_app, make_server, url_of

_MODEL = "model"
_PATH = f"/v2/models/{_MODEL}/infer"
_HEAD = "Inference-Header-Content-Length"
#: Clients, as many as requests are in flight, and requests that may wait beside those.
_CLIENTS, _QUEUE = 2, 16
_PAUSE_S = 0.05


@dataclass(frozen=True)
class _Deployed:
    """Where the model comes from: a session that others end."""

    session: Session
    name: str = _MODEL

    def open(self) -> contextlib.AbstractContextManager[Session]:
        """The session."""
        return contextlib.nullcontext(self.session)


@contextlib.contextmanager
def open_front(session: Session) -> Iterator[str]:
    """A front of this process before a session; where it listens."""
    with (
        listen_at("127.0.0.1:0") as listener,
        Front([_Deployed(session)], queue=_QUEUE) as front,
    ):
        server = make_server(make_app(front), front, grace_s=5.0)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield url_of(listener).removeprefix("http://")
        server.should_exit = True
        thread.join()


class FrontLoad:
    """Clients that ask one request after the other until told to end.

    Attributes:
        answers: What came; errors other than 503 are wrong.
        refused: Requests that got 503.
    """

    def __init__(
        self, place: str, inputs: Sequence[Any], expected: Sequence[Any], tolerance: float
    ) -> None:
        self.answers, self.refused = Answers(), 0
        self._place, self._tolerance = place, tolerance
        self._bodies = [_encode(one) for one in inputs]
        self._expected = [one[0] for one in expected]
        self._ended, self._lock = threading.Event(), threading.Lock()
        names = range(_CLIENTS)
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in names]

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ask nothing more, and wait for the last answers."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection(self._place, timeout=60)
        while not self._ended.is_set():
            with self._lock:
                number = self.answers.asked % len(self._bodies)
                self.answers.asked += 1
            length, body = self._bodies[number]
            connection.request("POST", _PATH, body, {_HEAD: str(length)})
            answer = connection.getresponse()
            self._note(number, answer, answer.read())
            if answer.status != 200:
                time.sleep(_PAUSE_S)
        connection.close()

    def _note(self, number: int, answer: http.client.HTTPResponse, body: bytes) -> None:
        with self._lock:
            self.answers.times.append(time.monotonic())
            if answer.status == 503:
                self.refused += 1
            elif answer.status != 200 or not self._is_right(number, answer, body):
                self.answers.wrong += 1

    def _is_right(self, number: int, answer: http.client.HTTPResponse, body: bytes) -> bool:
        want: Array = self._expected[number]
        got = np.frombuffer(body[int(answer.headers[_HEAD]) :], np.float32).reshape(want.shape)
        return float(np.abs(got - want).max()) <= self._tolerance * float(np.abs(want).max())


def _encode(feeds: Any) -> tuple[int, bytes]:
    """A request's header's length and its body."""
    ((name, array),) = feeds.items()
    tensor = {
        "name": name,
        "shape": list(array.shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": array.nbytes},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return len(head), head + array.tobytes()
