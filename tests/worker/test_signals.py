"""Signals that end a process."""

from __future__ import annotations

import signal
import threading

import pytest

from partita.worker.serve import heed_signals


def test_signals_that_come_together_end_it_once(caplog: pytest.LogCaptureFixture) -> None:
    """The second one finds a reader, and says nothing."""
    ended = threading.Event()
    caplog.set_level("INFO")
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with heed_signals(ended, "router"):
        for number in numbers:
            signal.raise_signal(number)
            assert ended.wait(10)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    assert [record.getMessage() for record in caplog.records] == ["SIGINT: the router ends"]
