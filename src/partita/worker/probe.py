"""Timing messages between two workers: one sends, the other says that it is there."""

from __future__ import annotations

import threading
import time

from partita.errors import RunError
from partita.fabric import Credit, Endpoint, PieceHeader, encode_note, encode_piece

#: Frames of this epoch belong to no program: they are answered and forgotten.
PROBE_EPOCH = 0
_ECHO_S = 60.0
_NO_DIGEST = b""


class Prober:
    """Sends probes to other workers and answers theirs.

    Args:
        endpoint: The worker's endpoint.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._one_at_a_time = threading.Lock()
        self._echo = threading.Event()
        self._number = 0
        self._target = ""
        self._is_lost = False
        self._gone: set[str] = set()

    def measure(self, target: str, size_bytes: int, repeats: int) -> tuple[float, ...]:
        """Return, per repeat, the seconds from a message's sending to the news of its arrival.

        Raises:
            RunError: ``target`` is not there, or does not answer.
        """
        with self._one_at_a_time:
            payload = bytes(size_bytes)
            self._target, self._is_lost = target, False
            if target in self._gone:  # sending would wait for it to come again
                self._is_lost = True
            try:
                return tuple(self._time_one(target, payload) for _ in range(repeats))
            finally:
                self._target = ""

    def answer(self, source: str, piece: PieceHeader) -> None:
        """Tell the sender of a probe that it is there."""
        self._endpoint.notify(source, encode_note(Credit(PROBE_EPOCH, piece.stream)))

    def take_echo(self, number: int) -> None:
        """Take the news that a probe has arrived."""
        if number == self._number:
            self._echo.set()

    def lose(self, device: str) -> None:
        """Stop to wait for a worker that is no more there."""
        self._gone.add(device)
        if device == self._target:
            self._is_lost = True
            self._echo.set()

    def find(self, device: str) -> None:
        """Take the news that a worker is there."""
        self._gone.discard(device)

    def _time_one(self, target: str, payload: bytes) -> float:
        if self._is_lost:
            raise self._lost(target)
        self._number += 1
        self._echo.clear()
        if self._is_lost:  # between two messages
            self._echo.set()
        piece = PieceHeader(PROBE_EPOCH, 0, (), self._number, _NO_DIGEST, len(payload))
        start_s = time.monotonic()
        self._endpoint.send(target, encode_piece(piece), payload)
        was_told = self._echo.wait(_ECHO_S)
        if self._is_lost:
            raise self._lost(target)
        if not was_told:
            raise RunError(
                f"Device {target!r} did not receive a message of {len(payload)} bytes within "
                f"{_ECHO_S:g} s.",
                device=target,
            )
        return time.monotonic() - start_s

    @staticmethod
    def _lost(target: str) -> RunError:
        return RunError(
            f"Device {target!r} was lost while a message to it was timed. Look at its worker.",
            device=target,
        )
