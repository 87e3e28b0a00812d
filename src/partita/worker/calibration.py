"""Timing each step of an epoch alone: warm-up on a real device, the measure of an emulated one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from partita.engine import Reference, SlowedRunner, calibrate, make_inputs
from partita.regions import encode_array
from partita.worker.runtime import Runtime
from partita.worker.step_runners import ReceiveWork, SendWork

_LEAST_REPEATS = 9
_FRESH_S = 0.05


class ReferencePace:
    """The machine's pace, asked again where the last answer is old.

    Args:
        wanted_s: What the reference took when the machine was profiled.
    """

    def __init__(self, wanted_s: float) -> None:
        self.wanted_s = wanted_s
        self._reference = Reference()
        self._known = (-_FRESH_S, 0.0)

    def now_s(self) -> float:
        """Return what the reference takes at the moment."""
        asked_s, found_s = self._known
        if time.monotonic() - asked_s > _FRESH_S:
            found_s = self._reference.time_s()
            self._known = (time.monotonic(), found_s)
        return found_s


def calibrate_runtime(
    runtime: Runtime, repeats: int, tick: Callable[[], None], reference_s: float = 0.0
) -> None:
    """Run every fragment of ``runtime`` once; where slowed, time steps for the emulation.

    Args:
        runtime: A loaded epoch that is not active yet.
        repeats: Runs per step; the quickest counts.
        tick: Called after each fragment.
        reference_s: What the reference took when the machine was profiled; 0 where it was not.

    Raises:
        RunError: A fragment failed.
    """
    runners = runtime.site.runners.values()
    slowed = [runner for runner in runners if isinstance(runner, SlowedRunner)]
    for runner in runners:
        if not isinstance(runner, SlowedRunner):
            runner.run(make_inputs(runner.inputs))
            tick()
    if slowed:
        pace = ReferencePace(reference_s) if reference_s else None
        calibrate(slowed, repeats, pace, tick)
    if runtime.stretch.slow_down.factor > 1:
        _calibrate_codecs(runtime, repeats)


def _calibrate_codecs(runtime: Runtime, repeats: int) -> None:
    for work in runtime.works:
        if isinstance(work, SendWork):
            buffer = runtime.site.buffers[work.read]
            array = np.ones(buffer.box.shape, buffer.dtype)
            seconds = _least_s(partial(work.codec.encode, array), repeats)
        elif isinstance(work, ReceiveWork) and not work.is_instant:
            codec = work.codec
            payload = encode_array(np.ones(codec.shape, codec.dtype), codec.wire)
            seconds = _least_s(partial(codec.decode, payload), repeats)
        else:
            continue
        before = runtime.stretch.alone_s.get(work.step, seconds)
        runtime.stretch.alone_s[work.step] = min(seconds, before)


def _least_s(work: Callable[[], object], repeats: int) -> float:
    """Return what some work takes on the quiet machine: all else can only add to it."""
    work()
    times = []
    for _ in range(max(repeats, _LEAST_REPEATS)):
        start_s = time.monotonic()
        work()
        times.append(time.monotonic() - start_s)
    return min(times)
