"""A device is drained while another change of the plan is due."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from tests.leader.test_replan_controller import Plans, quick_looks, run_until, stack, start

from partita.leader.replan_controller import ReplanController

__all__ = ["quick_looks", "stack"]


def test_what_is_due_waits_until_a_device_is_drained(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drift is answered after the drain, not beside it; and the device is drained once."""
    drained: list[str] = []
    over = threading.Event()

    def go_without(_: ReplanController, device: str) -> None:
        drained.append(device)
        assert over.wait(60)

    monkeypatch.setattr(ReplanController, "_go_without", go_without)
    plans = Plans(("d0", 0.1))
    _, session = start(stack, plans)
    draining = threading.Thread(target=session.drain, args=("d1",))
    asked = 0

    def is_done() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            draining.start()
        if asked == 20:  # of requests that take longer since the first few
            assert plans.asked == []
            over.set()
        return over.is_set() and bool(plans.asked)

    run_until(session, is_done, least=1)
    draining.join()
    assert drained == ["d1"]
