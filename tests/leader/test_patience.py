"""How long the end of a session waits."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from partita.leader.patience import Patience


def test_what_has_ended_is_told_from_what_goes_on() -> None:
    """Threads and jobs; none at all, jobs that were called off, and oneself are over."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    waiting: Future[None] = Future()
    called_off: Future[None] = Future()
    called_off.cancel()
    short = Patience(0.01)
    assert not short.join(thread)
    assert not short.wait(waiting, called_off)
    assert short.wait(None, called_off)
    assert short.join(None)
    assert short.join(threading.current_thread())
    over.set()
    waiting.set_result(None)
    assert Patience().join(thread)
    assert Patience().wait(waiting)
