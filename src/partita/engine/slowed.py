"""The filling that emulates a slow device: compute for real, then wait."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from partita.engine.base import Blob, Engine, Runner, make_inputs
from partita.program import TensorSpec
from partita.regions import Array
from partita.waiting import Clock, MonotonicClock, lower_priority

#: Short fragments are timed until their runs took this many seconds together, or this many runs,
#: after some that warm up. Not tuned: more take longer and are less disturbed.
_CALIBRATION_S = 0.03
_MOST_RUNS = 40
_WARM_UPS = 2


class Pace(Protocol):
    """How fast the machine is.

    Attributes:
        wanted_s: What the reference took on the machine that is emulated.
    """

    wanted_s: float

    def now_s(self) -> float:
        """What the reference takes at the moment."""


class Slowdown:
    """A device's slow-down: stretches work to ``factor`` times what it takes alone.

    The target comes from the time measured alone, not from the time that this very run took: else
    the noise of a shared machine would be multiplied too.

    Attributes:
        factor: At least 1.
        overruns: Pieces of work that took longer than their target already; such a run is no
            emulation and should be discarded.
    """

    def __init__(self, factor: float = 1.0, clock: Clock | None = None) -> None:
        if factor < 1:
            raise ValueError(f"slow-down is {factor}, at least 1 is needed")
        self.factor = factor
        self.overruns = 0
        self.clock: Clock = clock if clock is not None else MonotonicClock()

    def finish(self, start_s: float, alone_s: float) -> None:
        """Wait until ``factor`` times ``alone_s`` after ``start_s``, both in seconds.

        Args:
            start_s: When the work began, on this object's clock.
            alone_s: What the work takes on the quiet machine.
        """
        if self.factor == 1:
            return
        deadline_s = start_s + self.factor * alone_s
        if self.clock.now_s() > deadline_s:
            self.overruns += 1
        self.clock.wait_until(deadline_s)

    def stretch(self, seconds: float) -> None:
        """Wait the extra time of work that just took ``seconds`` and was never calibrated."""
        self.clock.wait_until(self.clock.now_s() + (self.factor - 1) * seconds)


class SlowedEngine:
    """Wraps an engine so that each run takes ``slow_down`` times the fragment's own latency.

    Args:
        slow_down: The device's :class:`Slowdown`, shared with whatever else the device does.
        timer: What runs are calibrated by, in seconds; the slow-down's own clock by default.
    """

    def __init__(
        self, inner: Engine, slow_down: Slowdown, timer: Callable[[], float] | None = None
    ) -> None:
        self.slow_down = slow_down
        self.inner = inner
        self._timer = timer or slow_down.clock.now_s

    def load(
        self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True
    ) -> SlowedRunner:
        """A runner that is to be calibrated; see :meth:`partita.engine.Engine.load`."""
        inner = self.inner.load(graph, blobs, prepack=prepack)
        return SlowedRunner(inner, self.slow_down, self._timer)


class SlowedRunner:
    """A runner with a floor under its latency; see :class:`partita.engine.Runner`.

    Attributes:
        alone_s: Calibrated latency; None until :func:`calibrate`.
    """

    def __init__(self, inner: Runner, slow_down: Slowdown, timer: Callable[[], float]) -> None:
        self.inputs: tuple[TensorSpec, ...] = inner.inputs
        self.outputs: tuple[TensorSpec, ...] = inner.outputs
        self.providers: tuple[str, ...] = inner.providers
        self.alone_s: float | None = None
        self._found: list[float] = []
        self._inner = inner
        self._slow_down = slow_down
        self._timer = timer

    def time_s(self, arrays: Sequence[Array]) -> float:
        """The seconds of one run, as they come."""
        start_s = self._timer()
        self._inner.run(arrays)
        return self._timer() - start_s

    def note(self, typical_s: float) -> None:
        """Keep what one calibration found: of several the median."""
        self._found.append(typical_s)
        self.alone_s = statistics.median(self._found)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs, not before the slowed latency has passed.

        A runner that was never calibrated calibrates itself at its first run.
        """
        if self.alone_s is None:
            calibrate([self])
        if self._slow_down.factor > 1:
            lower_priority()
        start_s = self._slow_down.clock.now_s()
        outputs = self._inner.run(arrays)
        self._slow_down.finish(start_s, self.alone_s or 0.0)
        return outputs


def calibrate(
    runners: Sequence[SlowedRunner],
    count: int = 5,
    reference: Pace | None = None,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Find and keep each fragment's own latency, on an otherwise quiet machine.

    The fragments run one after the other, pass after pass, as they do when a request comes: a
    fragment that runs alone again and again finds its weights and inputs in the nearest cache,
    and a short one is twice as fast as it ever is in a request. Of a fragment's runs the median
    counts, as a real device's typical run would; short fragments run more often. A reference takes
    out the machine's own pace.

    Args:
        runners: The fragments of one device, in the order of its steps.
        count: Least number of passes, after two that warm up.
        reference: The machine's pace, and what it shall be.
        tick: Called when a fragment has run for the first time.
    """
    inputs = [make_inputs(runner.inputs) for runner in runners]
    for warm_up in range(_WARM_UPS):
        for runner, arrays in zip(runners, inputs, strict=True):
            runner.time_s(arrays)
            if warm_up == 0:
                tick()
    passes: list[list[float]] = []
    paces_s = [reference.now_s()] if reference else []
    enough_s = _CALIBRATION_S * len(runners)
    while len(passes) < count or (sum(map(sum, passes)) < enough_s and len(passes) < _MOST_RUNS):
        passes.append([run.time_s(arrays) for run, arrays in zip(runners, inputs, strict=True)])
        if reference:
            paces_s.append(reference.now_s())
    scale = reference.wanted_s / statistics.median(paces_s) if reference else 1.0
    for runner, times in zip(runners, zip(*passes, strict=True), strict=True):
        runner.note(statistics.median(times) * scale)
