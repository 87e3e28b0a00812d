"""Timing an epoch's steps alone, with clocks and references that are told beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.test_slowed import VirtualClock
from tests.worker.bench import Bench, with_wire
from tests.worker.tiny import tiny_chain

from partita.engine import OrtEngine, Slowdown, SlowedEngine, SlowedRunner
from partita.errors import PartitaError
from partita.worker import calibration
from partita.worker.calibration import ReferencePace, calibrate_runtime


class ScriptedReference:
    """A reference that takes the next of the given times."""

    def __init__(self) -> None:
        self.times_s = [0.25, 0.5]

    def time_s(self) -> float:
        """The next time."""
        return self.times_s.pop(0)


def test_the_pace_is_measured_again_only_when_it_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two fragments the last answer holds; later the machine is asked anew."""
    clock = VirtualClock()
    monkeypatch.setattr(calibration, "Reference", ScriptedReference)
    monkeypatch.setattr(calibration.time, "monotonic", clock.now_s)
    pace = ReferencePace(0.125)
    assert [pace.now_s(), pace.now_s()] == [0.25, 0.25]
    clock.time_s += 1.0
    assert pace.now_s() == 0.5


def test_a_real_device_is_warmed_up_and_not_timed(tmp_path: Path) -> None:
    """Every fragment runs once and is counted; nothing is paced afterwards."""
    bench = Bench(with_wire(tiny_chain(6, 3), "float16"), tmp_path, "d1")
    bench.load()
    ticks: list[None] = []
    calibrate_runtime(bench.runtime, 3, lambda: ticks.append(None))
    assert len(ticks) == 2
    assert bench.runtime.pacing.alone_s == {}


def slowed_bench(root: Path, wire: str) -> Bench:
    """A loaded device that is emulated twice as slow."""
    slow_down = Slowdown(2.0)
    engine = SlowedEngine(OrtEngine(1), slow_down)
    bench = Bench(with_wire(tiny_chain(), wire), root, "d1", engine=engine, slow_down=slow_down)
    bench.load()
    return bench


@pytest.mark.parametrize(
    ("wire", "lanes"), [("raw", {"send:d2"}), ("uint8", {"receive", "send:d2"})]
)
def test_on_a_slowed_device_codecs_are_timed_too(
    tmp_path: Path, wire: str, lanes: set[str]
) -> None:
    """Encoding and decoding get their own time; a raw payload is only viewed and gets none."""
    bench = slowed_bench(tmp_path, wire)
    calibrate_runtime(bench.runtime, 1, lambda: None)
    (runner,) = bench.runtime.context.runners.values()
    assert isinstance(runner, SlowedRunner)
    assert runner.alone_s is not None
    lane_of = {r.step: r.lane for r in bench.runtime.step_runners.values()}
    alone_s = bench.runtime.pacing.alone_s
    assert {lane_of[step] for step in alone_s} == lanes
    assert min(alone_s.values()) > 0


def test_of_several_calibrations_the_quietest_counts(tmp_path: Path) -> None:
    """Whatever else a machine does only adds to a time: a later round never raises it."""
    bench = slowed_bench(tmp_path, "raw")
    calibrate_runtime(bench.runtime, 1, lambda: None)
    (step,) = bench.runtime.pacing.alone_s
    bench.runtime.pacing.alone_s[step] = 1e-12
    calibrate_runtime(bench.runtime, 1, lambda: None)
    assert bench.runtime.pacing.alone_s[step] == 1e-12


def test_a_fragment_that_fails_ends_the_calibration(tmp_path: Path) -> None:
    """The engine's error comes out; it is the caller who tells the leader."""
    bench = Bench(tiny_chain(), tmp_path, "d1")
    bench.load()
    bench.runtime.context.runners[1].inputs = ()  # type: ignore[misc]
    with pytest.raises(PartitaError):
        calibrate_runtime(bench.runtime, 1, lambda: None)
