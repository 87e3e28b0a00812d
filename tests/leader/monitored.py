"""A failure monitor on a turned clock."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import Deployed, FakeLab, InlinePool, fake_time, info_of
from tests.worker.tiny import Tiny, tiny_chain

from partita.errors import RunError
from partita.leader import (
    DeployOptions,
    failure_monitor,
    failures,
    heartbeats,
    past_epochs,
    recovery,
    request_tracker,
    worker_group,
)
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.recovery import Recovery, ReplanWithout

TINY = tiny_chain(3, 3, in_flight=2, credit=2)
REST = tiny_chain(3, 2, in_flight=2, credit=2)
ALONE = tiny_chain(3, 1, in_flight=2, credit=2)
#: The monitor's own loop, which a bench leaves out.
run_monitor = FailureMonitor._run


class Bench:
    """A monitor whose thread sleeps: the test checks."""

    def __init__(self, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failure_monitor.FailureMonitor, "_run", lambda monitor: None)
        monkeypatch.setattr(past_epochs, "ThreadPoolExecutor", InlinePool)
        modules = (failure_monitor, failures, heartbeats, recovery, worker_group, request_tracker)
        for module in modules:
            monkeypatch.setattr(module, "time", fake_time(clock))
        self.clock = clock
        self.lab = FakeLab("d0", "d1", "d2", "d3")
        self.lab.group.remove("d3")
        self.first = self.deployment(1)
        self.monitors: list[FailureMonitor] = []
        self.finished: dict[str, int] = {}

    def deployment(self, epoch: int, tiny: Tiny = TINY) -> Any:
        """A deployment under an epoch."""
        return Deployed(self.lab, tiny.program, epoch)

    def start(
        self,
        replan: ReplanWithout | None = None,
        *,
        standby: Any = None,
        wait_s: float = 0.0,
        **options: object,
    ) -> FailureMonitor:
        """Begin to look after the first epoch; the requester is waited for as long as is said."""
        infos = {name: info_of(name) for name in self.lab.workers}
        given = DeployOptions(**options)  # type: ignore[arg-type]
        self.recovery = Recovery(self.lab.group, replan, "d0", given.silence_s, wait_s)
        self.monitors.append(
            FailureMonitor(self.lab.group, self.first, infos, given, self.recovery, standby=standby)
        )
        return self.monitors[0]

    def ask(self) -> Future[Any]:
        """Feed one request."""
        return self.monitors[0].tracker.ask((np.zeros(4, np.float32),))

    def pass_time(self, seconds: float, *, beating: tuple[str, ...] = ("d0", "d1", "d2")) -> None:
        """Let time pass in which the leader listens, have workers beat, and check."""
        end_s = self.clock.time_s + seconds
        while self.clock.time_s < end_s:
            self.clock.time_s = min(self.clock.time_s + 0.1, end_s)
            self.lab.group.beat()
        for name in beating:
            self.lab.workers[name].beat(1, self.finished.get(name, 0))
        self.monitors[0]._check(self.clock.time_s)


def error_of(future: Future[Any]) -> RunError:
    """How a request ended."""
    error = future.exception(0)
    assert isinstance(error, RunError)
    return error
