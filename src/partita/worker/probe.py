"""Round trips between workers: one sends a probe, another acknowledges its arrival."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from partita.errors import RunError
from partita.fabric import Credit, Endpoint, PieceHeader, encode_header, encode_note
from partita.fabric.base import unreachable
from partita.worker.messages import MessageFlow

#: Frames of this epoch belong to no program: they are acknowledged and dropped.
PROBE_EPOCH = 0
#: Time for the largest probe of a profile (8 MB) on a link of about 1 Mbit/s.
_ACK_TIMEOUT_S = 60.0
#: Time for a worker to hear of another one. Workers that were not told of each other meet through
#: the first leader that connects to both, within a second of it here.
_MEET_TIMEOUT_S = 5.0
_MEET_POLL_S = 0.05
_NO_DIGEST = b""
#: One under way and one that waits for it: calls have four threads, and the rest stays for others.
_MAX_PROBES = 2


class _Trip:
    """A probe on its way.

    Attributes:
        is_over: Set when its arrival is acknowledged, or its target lost.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.is_over = threading.Event()
        self.is_lost = False

    def lose(self) -> None:
        """End the wait: the target is gone."""
        self.is_lost = True
        self.is_over.set()


class Prober:
    """Sends probes to other workers and answers theirs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._measuring = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_MAX_PROBES)
        self._numbers = itertools.count(1)
        self._trips: dict[int, _Trip] = {}
        self._gone: set[str] = set()

    def measure(self, flows: Sequence[MessageFlow]) -> tuple[tuple[float, ...], ...]:
        """Per flow and message, the seconds from its sending to its acknowledgement.

        Flows are sent at the same time, the messages of one after each other.

        Raises:
            RunError: A target is not there, or does not answer; others are timed already.
        """
        if not self._waiting.acquire(blocking=False):
            raise RunError(
                f"Device {self._endpoint.name!r} times {_MAX_PROBES} links already; try later.",
                device=self._endpoint.name,
            )
        try:
            for flow in flows:
                self._meet(flow.target)
            with self._measuring, ThreadPoolExecutor(len(flows), "probe") as pool:
                return tuple(pool.map(self._measure, flows))
        finally:
            self._waiting.release()

    def _meet(self, target: str) -> None:
        """Wait until ``target`` is seen; one that was there and has left is not waited for."""
        deadline_s = time.monotonic() + _MEET_TIMEOUT_S
        while target not in (peers := self._endpoint.peers()):
            if target in self._gone or time.monotonic() >= deadline_s:
                raise unreachable(target, peers)
            time.sleep(_MEET_POLL_S)

    def _measure(self, flow: MessageFlow) -> tuple[float, ...]:
        payload = bytes(flow.size_bytes)
        return tuple(self._round_trip_s(flow.target, payload) for _ in range(flow.repeats))

    def acknowledge(self, source: str, header: PieceHeader) -> None:
        """Tell the sender of a probe that it has arrived."""
        self._endpoint.notify(source, encode_note(Credit(PROBE_EPOCH, header.stream)))

    def on_acknowledged(self, number: int) -> None:
        """End the wait for probe ``number``; nobody waits for those that took too long."""
        trip = self._trips.get(number)
        if trip is not None:
            trip.is_over.set()

    def on_lost(self, device: str) -> None:
        """End the waits for a worker that has left."""
        self._gone.add(device)
        for trip in list(self._trips.values()):
            if trip.target == device:
                trip.lose()

    def on_found(self, device: str) -> None:
        """Allow probes to a worker that has come (back)."""
        self._gone.discard(device)

    def _round_trip_s(self, target: str, payload: bytes) -> float:
        number, trip = next(self._numbers), _Trip(target)
        self._trips[number] = trip
        try:
            # Sending to a worker that is gone would wait for it to come back.
            if target in self._gone:
                raise self._lost(target)
            return self._send(number, trip, payload)
        finally:
            del self._trips[number]

    def _send(self, number: int, trip: _Trip, payload: bytes) -> float:
        target = trip.target
        header = PieceHeader(PROBE_EPOCH, 0, (), number, _NO_DIGEST, len(payload))
        start_s = time.monotonic()
        try:
            self._endpoint.send(target, encode_header(header), payload)
        except RunError as error:
            # A broken connection may be seen before the news that its other end is gone.
            raise (self._lost(target) if error.device == target else error) from error
        is_over = trip.is_over.wait(_ACK_TIMEOUT_S)
        if trip.is_lost:
            raise self._lost(target)
        if not is_over:
            raise RunError(
                f"Device {target!r} did not receive a message of {len(payload)} bytes within "
                f"{_ACK_TIMEOUT_S:g} s.",
                device=target,
            )
        return time.monotonic() - start_s

    @staticmethod
    def _lost(target: str) -> RunError:
        return RunError(
            f"Device {target!r} was lost while a message to it was timed. Look at its worker.",
            device=target,
        )
