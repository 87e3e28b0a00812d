"""What an epoch holds in memory, and what it writes down."""

from __future__ import annotations

import numpy as np
import pytest

from partita.worker import buffers
from partita.worker.buffers import BufferTable, StepLog


def test_bytes_follow_what_is_held_and_the_peak_stays() -> None:
    """Arrays and payloads count from arrival to release; the peak is their largest sum."""
    table = BufferTable()
    table.arrive(3, 0, memoryview(bytes(100)))
    assert table.is_unread(3, 0)
    assert not table.is_unread(3, 1)
    table.keep(0, [(1, np.zeros(5, np.float32))])
    assert (table.bytes, table.peak_bytes) == (120, 120)
    assert table.take(3, 0).nbytes == 100
    table.drop(0, 1)
    assert (table.bytes, table.peak_bytes) == (0, 120)
    with pytest.raises(KeyError):
        table.take(3, 0)


def test_arrays_of_two_requests_are_apart() -> None:
    """The same buffer of two requests holds two arrays; dropping the one leaves the other."""
    table = BufferTable()
    for request in (0, 1):
        table.keep(request, [(1, np.full(2, request, np.float32))])
    table.drop(0, 1)
    assert table.of(1)[1].tolist() == [1, 1]
    with pytest.raises(KeyError):
        table.of(0)


def test_a_buffer_that_was_never_written_may_be_dropped() -> None:
    """On a route that leaves a buffer out there is nothing to free, and nothing is counted."""
    table = BufferTable()
    table.drop(0, 1)
    table.keep(0, [(2, np.zeros(1, np.float32))])
    table.drop(0, 1)
    assert table.bytes == 4


def test_the_log_adds_up_per_lane_step_and_target() -> None:
    """Busy seconds count for all lanes, runs for computing only, bytes per target."""
    log = StepLog(trace=True)
    log.add("compute", 5, 0, 1.0, 1.5)
    log.add("compute", 5, 1, 2.0, 2.25)
    log.add("send:d1", 6, 0, 1.5, 1.75)
    log.add_sent("d1", 100, 0.125)
    log.add_sent("d1", 50, 0.125)
    assert log.finished == 3
    assert log.busy_s["compute"] == 0.75
    (computed,), (sent,) = log.computed(), log.sent()
    assert (computed.step, computed.count, computed.busy_s) == (5, 2, 0.75)
    assert (sent.bytes, sent.messages, sent.wire_s, sent.busy_s) == (150, 2, 0.25, 0.25)


def test_spans_are_read_in_windows_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader gets all spans piece by piece; beyond the limit the oldest are forgotten."""
    monkeypatch.setattr(buffers, "MAX_SPANS", 4)
    log = StepLog(trace=True)
    for request in range(6):
        log.add("compute", 1, request, request, request + 0.5)
    assert [span.request for span in log.spans(0, 3)] == [2, 3, 4]
    assert [span.request for span in log.spans(3, 3)] == [5]
    assert log.spans(4, 3) == ()


def test_without_tracing_only_sums_are_kept() -> None:
    """Spans cost memory per step; who does not ask for them pays nothing."""
    log = StepLog(trace=False)
    log.add("compute", 1, 0, 0.0, 1.0)
    assert log.spans(0, 10) == ()
    assert log.computed()[0].busy_s == 1.0
