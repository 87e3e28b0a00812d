"""The threads of a device."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

from partita.worker.lanes import Lane, Lanes


class Token:
    """Something whose end can be seen."""


def test_jobs_of_a_lane_run_in_order_on_one_thread() -> None:
    """No two jobs of a lane run at once, and none overtakes another; closing waits for all."""
    lane, seen = Lane("d0/compute"), []
    for number in range(50):
        lane.put(lambda number=number: seen.append((number, threading.current_thread().name)))
    lane.close()
    assert seen == [(number, "d0/compute") for number in range(50)]


def test_a_lane_that_waits_holds_nothing_of_its_last_job() -> None:
    """Arrays that a job read are free while the lane is idle, not when the next job comes."""
    lane, done = Lane("d0/compute"), threading.Event()
    token = Token()
    gone = threading.Event()
    weakref.finalize(token, gone.set)

    def job(held: Token = token) -> None:
        done.set()

    lane.put(job)
    del job, token
    assert done.wait(5)
    assert gone.wait(5)
    lane.close()


def test_a_lane_may_close_itself() -> None:
    """A job that ends the worker does not wait for its own thread."""
    lane, closed = Lane("d0/compute"), threading.Event()
    lane.put(lambda: (lane.close(), closed.set()))  # type: ignore[arg-type, func-returns-value]
    assert closed.wait(5)


def test_threads_that_ask_at_once_get_the_same_lane() -> None:
    """Two lanes of one name would run two steps of a device at the same time."""
    lanes, start = Lanes("d0"), threading.Barrier(8, timeout=5)

    def ask(_: int) -> Lane:
        start.wait()
        return lanes.lane("compute")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert lanes.lane("receive") is not lanes.lane("compute")
    lanes.close()
