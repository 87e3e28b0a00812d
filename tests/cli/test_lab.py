"""The lab's own watch over its workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from partita.cli.actions import lab


class FakeLab:
    """Workers that end when they are told to, on a clock that goes on with every look."""

    def __init__(self, *names: str) -> None:
        self.now_s = 0.0
        self.processes: dict[str, Any] = {name: self.start(10) for name in names}
        self.restarted: list[tuple[str, float]] = []

    @staticmethod
    def start(pid: int) -> Any:
        """A process that runs."""
        process = SimpleNamespace(pid=pid, code=None)
        process.poll = lambda: process.code
        return process

    def sleep(self, seconds: float) -> None:
        """Let time pass; the worker ``a`` ends after a while, and again, and so does ``b``."""
        self.now_s += seconds
        if self.now_s in (2.0, 8.0):
            self.processes["a"].code = -9
        if self.now_s == 20.0:
            for process in self.processes.values():
                process.code = 0

    def restart(self, name: str) -> None:
        """Start a worker again."""
        self.restarted.append((name, self.now_s))
        self.processes[name] = self.start(11)
        if self.now_s > 20.0:
            raise KeyboardInterrupt


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    """Two workers."""
    made = FakeLab("a", "b")
    clock = SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now_s)
    monkeypatch.setattr(lab, "time", clock)
    return made


def test_workers_that_end_stay_away(fake: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    """That is told, with the flag that would start them again; without any the lab is over."""
    lab.watch_workers(fake)  # type: ignore[arg-type]
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "worker 'a' has ended (exit code -9); --restart SECONDS would start it again"
    assert told[1].startswith("worker 'b' has ended (exit code 0)")
    assert fake.restarted == []


def test_workers_that_end_are_started_again(
    fake: FakeLab, capsys: pytest.CaptureFixture[str]
) -> None:
    """So many seconds later, as often as they end, until a signal comes."""
    with pytest.raises(KeyboardInterrupt):
        lab.watch_workers(fake, 3.0)  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert fake.restarted == [("a", 5.0), ("a", 11.0), ("a", 23.0)]
    assert "worker 'a' has ended (exit code -9); it is started again in 3 s\n" in told
    assert "worker 'a' runs again, as process 11\n" in told
