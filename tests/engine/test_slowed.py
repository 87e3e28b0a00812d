"""Slowed devices, on a virtual clock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from partita.engine import Blob, OrtEngine, Slowdown, SlowedEngine, calibrate
from partita.program import TensorSpec
from partita.regions import Array


class VirtualClock:
    """Time that passes only when somebody waits or works."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def now_s(self) -> float:
        """Return the virtual time."""
        return self.time_s

    def wait_until(self, deadline_s: float) -> None:
        """Jump to the deadline."""
        self.time_s = max(self.time_s, deadline_s)


class ScriptedEngine:
    """An engine and its runner in one; each run takes the next of the given times."""

    inputs = (TensorSpec("i0", (2, 3), "float32"), TensorSpec("i1", (1,), "int64"))
    outputs = (TensorSpec("o0", (2, 3), "float32"),)
    providers = ("scripted",)

    def __init__(self, clock: VirtualClock, times_s: Sequence[float]) -> None:
        self.clock = clock
        self.times_s = list(times_s)

    def load(
        self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True
    ) -> ScriptedEngine:
        """Return itself."""
        return self

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Spend the next time and return the first input."""
        assert [a.shape for a in arrays] == [s.shape for s in self.inputs]
        self.clock.time_s += self.times_s.pop(0)
        return [arrays[0]]


def make(times_s: Sequence[float], factor: float) -> tuple[SlowedEngine, VirtualClock]:
    """Return a slowed scripted engine and its clock."""
    clock = VirtualClock()
    return SlowedEngine(ScriptedEngine(clock, times_s), Slowdown(factor, clock)), clock


INPUTS = [np.ones((2, 3), np.float32), np.ones(1, np.int64)]


def test_run_takes_the_factor_times_the_calibrated_median() -> None:
    """Noise does not show: the target is the typical time that was measured alone."""
    warm_up, calibration, runs = [9.0, 9.0], [0.01, 0.5, 0.012, 0.011, 0.009], [0.010, 0.030, 0.001]
    engine, clock = make(warm_up + calibration + runs, 4)
    runner = engine.load(b"", {})
    calibrate([runner], 5)
    assert runner.alone_s == pytest.approx(0.011)
    for _ in runs:
        start_s = clock.time_s
        (output,) = runner.run(INPUTS)
        assert clock.time_s - start_s == pytest.approx(0.044)
        np.testing.assert_array_equal(output, INPUTS[0])
    assert engine.slow_down.overruns == 0


def test_overrun_is_counted_not_hidden() -> None:
    """A run that takes longer than its target is as long as it was, and counts."""
    engine, clock = make([0.01, 0.01, 0.05, 0.3], 4)
    runner = engine.load(b"", {})
    calibrate([runner], 1)
    start_s = clock.time_s
    runner.run(INPUTS)
    assert clock.time_s - start_s == pytest.approx(0.3)
    assert engine.slow_down.overruns == 1


def test_first_run_calibrates_where_nobody_did() -> None:
    """A runner that was forgotten at deployment is still slowed."""
    engine, clock = make([0.02] * 8, 3)
    runner = engine.load(b"", {})
    runner.run(INPUTS)
    assert clock.time_s == pytest.approx(100 + 7 * 0.02 + 3 * 0.02)


def test_factor_one_changes_nothing() -> None:
    """A device as fast as the machine neither waits nor counts overruns."""
    engine, clock = make([0.02, 0.02, 0.06, 0.05], 1)
    runner = engine.load(b"", {})
    calibrate([runner], 1)
    runner.run(INPUTS)
    assert clock.time_s == pytest.approx(100.15)
    assert engine.slow_down.overruns == 0


def test_short_fragments_are_timed_more_often() -> None:
    """Runs go on until they took long enough together; one run alone may be disturbed."""
    engine, _ = make([0.01, 0.01, 0.007, 0.007, *[0.003] * 10], 2)
    runner = engine.load(b"", {})
    calibrate([runner], 1)
    assert runner.alone_s == pytest.approx(0.003)


class ScriptedPace:
    """A machine whose pace is told beforehand."""

    wanted_s = 0.001

    def __init__(self, paces_s: Sequence[float]) -> None:
        self.paces_s = list(paces_s)

    def now_s(self) -> float:
        """Return the next pace."""
        return self.paces_s.pop(0)


def test_the_machines_own_pace_is_taken_out() -> None:
    """Timed while the machine is half as fast, a fragment keeps its time at the wanted pace."""
    engine, _ = make([0.02] * 4 + [0.04] * 3 + [0.03] * 3, 2)
    runner = engine.load(b"", {})
    pace = ScriptedPace([0.001] * 3 + [0.002] * 2 + [0.001] * 2)
    for _ in range(3):
        calibrate([runner], 1, pace)
        assert runner.alone_s == pytest.approx(0.02), "the median of all calibrations"


def test_fragments_take_turns() -> None:
    """A fragment is timed after its neighbours: the nearest cache is not its own."""
    clock = VirtualClock()
    order: list[str] = []
    runners = [
        SlowedEngine(NamedEngine(clock, [0.02] * 5, name, order), Slowdown(2, clock)).load(b"", {})
        for name in "abc"
    ]
    calibrate(runners, 3)
    assert order == list("abc") * 5


class NamedEngine(ScriptedEngine):
    """Tells when it runs."""

    def __init__(
        self, clock: VirtualClock, times_s: Sequence[float], name: str, order: list[str]
    ) -> None:
        super().__init__(clock, times_s)
        self.name, self.order = name, order

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Write the name down."""
        self.order.append(self.name)
        return super().run(arrays)


def test_stretch_adds_the_missing_time() -> None:
    """Work of 2 ms on a device 8 times slower gets 14 ms more."""
    clock = VirtualClock()
    Slowdown(8, clock).stretch(0.002)
    assert clock.time_s == pytest.approx(100.014)


def test_a_device_cannot_be_faster_than_the_machine() -> None:
    """A factor below one is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        Slowdown(0.5)


def test_calibration_counts_what_the_engine_used() -> None:
    """Other processes took the processor for four fifths of each run: those do not count."""
    clock = VirtualClock()
    inner = ScriptedEngine(clock, [0.05] * 7)
    engine = SlowedEngine(inner, Slowdown(4, clock), lambda: clock.time_s / 5)
    runner = engine.load(b"", {})
    calibrate([runner], 5)
    assert runner.alone_s == pytest.approx(0.01)


def test_one_thread_is_timed_by_its_processor_time() -> None:
    """Of several threads only the time of day tells."""
    assert OrtEngine(1).timer is time.thread_time
    assert OrtEngine(2).timer is time.perf_counter
