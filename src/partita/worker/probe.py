"""Round trips between two workers: one sends a probe, the other acknowledges its arrival."""

from __future__ import annotations

import threading
import time

from partita.errors import RunError
from partita.fabric import Credit, Endpoint, PieceHeader, encode_header, encode_note
from partita.fabric.base import unreachable

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


class Prober:
    """Sends probes to other workers and answers theirs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._measuring = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_MAX_PROBES)
        self._acknowledged = threading.Event()
        self._number = 0
        self._target = ""
        self._is_lost = False
        self._gone: set[str] = set()

    def measure(self, target: str, size_bytes: int, repeats: int) -> tuple[float, ...]:
        """Per repeat, the seconds from a message's sending to its acknowledgement.

        Raises:
            RunError: ``target`` is not there, or does not answer; others are timed already.
        """
        if not self._waiting.acquire(blocking=False):
            raise RunError(
                f"Device {self._endpoint.name!r} times {_MAX_PROBES} links already; try later.",
                device=self._endpoint.name,
            )
        try:
            self._meet(target)
            return self._measure(target, size_bytes, repeats)
        finally:
            self._waiting.release()

    def _meet(self, target: str) -> None:
        """Wait until ``target`` is seen; one that was there and has left is not waited for."""
        deadline_s = time.monotonic() + _MEET_TIMEOUT_S
        while target not in (peers := self._endpoint.peers()):
            if target in self._gone or time.monotonic() >= deadline_s:
                raise unreachable(target, peers)
            time.sleep(_MEET_POLL_S)

    def _measure(self, target: str, size_bytes: int, repeats: int) -> tuple[float, ...]:
        with self._measuring:
            payload = bytes(size_bytes)
            # Sending to a worker that is gone would wait for it to come back.
            self._target, self._is_lost = target, target in self._gone
            try:
                return tuple(self._round_trip_s(target, payload) for _ in range(repeats))
            finally:
                self._target = ""

    def acknowledge(self, source: str, header: PieceHeader) -> None:
        """Tell the sender of a probe that it has arrived."""
        self._endpoint.notify(source, encode_note(Credit(PROBE_EPOCH, header.stream)))

    def on_acknowledged(self, number: int) -> None:
        """End the wait for probe ``number``; late acknowledgements of earlier ones are ignored."""
        if number == self._number:
            self._acknowledged.set()

    def on_lost(self, device: str) -> None:
        """End the wait for a worker that has left."""
        self._gone.add(device)
        if device == self._target:
            self._is_lost = True
            self._acknowledged.set()

    def on_found(self, device: str) -> None:
        """Allow probes to a worker that has come (back)."""
        self._gone.discard(device)

    def _round_trip_s(self, target: str, payload: bytes) -> float:
        if self._is_lost:
            raise self._lost(target)
        self._number += 1
        self._acknowledged.clear()
        if self._is_lost:  # between the check above and the clearing
            self._acknowledged.set()
        header = PieceHeader(PROBE_EPOCH, 0, (), self._number, _NO_DIGEST, len(payload))
        start_s = time.monotonic()
        try:
            self._endpoint.send(target, encode_header(header), payload)
        except RunError as error:
            # A broken connection may be seen before the news that its other end is gone.
            raise (self._lost(target) if error.device == target else error) from error
        has_arrived = self._acknowledged.wait(_ACK_TIMEOUT_S)
        if self._is_lost:
            raise self._lost(target)
        if not has_arrived:
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
