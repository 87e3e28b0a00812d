"""Threads that run an endpoint's callbacks."""

from __future__ import annotations

import threading

import pytest

from partita.errors import RunError
from partita.fabric.callbacks import CallbackThread, Drain


def test_jobs_run_in_order_and_outlive_an_error() -> None:
    """What a job raises is told once, in one line; the next job runs on the same thread."""
    seen: list[object] = []
    errors: list[RunError] = []
    thread = CallbackThread("test")

    def fail() -> None:
        raise ValueError("first\nsecond")

    def refuse() -> None:
        raise RunError("no", device="a")

    for job in (lambda: seen.append(1), fail, refuse, lambda: seen.append(2)):
        thread.put(job, errors.append)
    thread.close()
    assert seen == [1, 2]
    assert errors[0].message.startswith("Callback on partita-test failed: ValueError")
    assert "\n" not in errors[0].message
    assert (errors[1].message, errors[1].device) == ("no", "a")


def test_a_drain_works_on_messages_in_order_and_to_the_last() -> None:
    """Closing waits for what is queued; a message that fails does not end the thread."""
    seen: list[int] = []
    errors: list[RunError] = []

    def work(message: int) -> None:
        if message == 3:
            raise ValueError("three")
        seen.append(message)

    drain = Drain("test", work, errors.append)
    for message in range(6):
        drain.put(message)
    drain.close()
    assert seen == [0, 1, 2, 4, 5]
    assert len(errors) == 1


@pytest.mark.parametrize("kind", ["jobs", "messages"])
def test_a_callback_may_close_its_own_endpoint(kind: str) -> None:
    """The thread does not wait for itself."""
    closed = threading.Event()
    if kind == "jobs":
        thread = CallbackThread("test")
        thread.put(lambda: (thread.close(), closed.set()), lambda error: None)  # type: ignore[arg-type, func-returns-value]
    else:
        drain = Drain("test", lambda _: (drain.close(), closed.set()), lambda error: None)  # type: ignore[arg-type, func-returns-value]
        drain.put(1)
    assert closed.wait(5)
