"""A thread whose start nobody waits for."""

from __future__ import annotations

import os
import threading

import pytest

from partita.loading.serve.detached_thread import Aside

MOST_S = 10.0


def test_joining_waits_for_the_task() -> None:
    """Every time, and from several threads."""
    gate, seen = threading.Event(), []

    def task() -> None:
        assert gate.wait(MOST_S)
        seen.append(1)

    aside = Aside(task)
    waiting = [threading.Thread(target=aside.join) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert all(thread.is_alive() for thread in waiting)
    gate.set()
    for thread in waiting:
        thread.join(MOST_S)
        assert not thread.is_alive()
    aside.join()
    assert seen == [1]


def test_a_task_may_join_itself() -> None:
    """Closing a session in its own background task does not hang."""
    made, found = threading.Event(), threading.Event()
    asides: list[Aside] = []

    def task() -> None:
        assert made.wait(MOST_S)
        asides[0].join()
        found.set()

    asides.append(Aside(task))
    made.set()
    assert found.wait(MOST_S)


def test_a_copy_by_fork_has_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it wait for the lock that its thread would release."""
    gate = threading.Event()

    def task() -> None:
        gate.wait(MOST_S)

    aside = Aside(task)
    number = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: number + 1)
    aside.join()
    monkeypatch.undo()
    gate.set()
    aside.join()


def test_joining_after_an_interrupted_join() -> None:
    """Ctrl-C may leave the lock held by who waited."""
    aside = Aside(lambda: None)
    aside.join()
    aside._running.acquire()
    aside.join()
