"""A thread whose start nobody waits for."""

from __future__ import annotations

import os
import threading

import pytest

from partita.loading.serve.detached_thread import DetachedThread

MOST_S = 10.0


def test_joining_waits_for_the_task() -> None:
    """Every time, and from several threads."""
    gate, seen = threading.Event(), []

    def task() -> None:
        assert gate.wait(MOST_S)
        seen.append(1)

    thread = DetachedThread(task)
    waiting = [threading.Thread(target=thread.join) for _ in range(3)]
    for waiter in waiting:
        waiter.start()
    assert all(waiter.is_alive() for waiter in waiting)
    gate.set()
    for waiter in waiting:
        waiter.join(MOST_S)
        assert not waiter.is_alive()
    thread.join()
    assert seen == [1]


def test_a_task_may_join_itself() -> None:
    """Closing a session in its own background task does not hang."""
    made, found = threading.Event(), threading.Event()
    threads: list[DetachedThread] = []

    def task() -> None:
        assert made.wait(MOST_S)
        threads[0].join()
        found.set()

    threads.append(DetachedThread(task))
    made.set()
    assert found.wait(MOST_S)


def test_a_copy_by_fork_has_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it wait for the lock that its thread would release."""
    gate = threading.Event()

    def task() -> None:
        gate.wait(MOST_S)

    thread = DetachedThread(task)
    number = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: number + 1)
    thread.join()
    monkeypatch.undo()
    gate.set()
    thread.join()


def test_joining_after_an_interrupted_join() -> None:
    """Ctrl-C may leave the lock held by who waited."""
    thread = DetachedThread(lambda: None)
    thread.join()
    thread._running.acquire()
    thread.join()
