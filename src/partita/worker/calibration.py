"""Timing each step of an epoch alone: warm-up on a real device, the measure of an emulated one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from partita.engine import SlowedRunner, make_inputs
from partita.regions import encode_array
from partita.worker.runtime import Runtime
from partita.worker.works import ReceiveWork, SendWork

_LEAST_REPEATS = 9


def calibrate(runtime: Runtime, repeats: int, tick: Callable[[], None]) -> None:
    """Run every fragment of ``runtime`` alone; where slowed, time steps for the emulation.

    Args:
        runtime: A loaded epoch that is not active yet.
        repeats: Runs per step; the quickest counts.
        tick: Called after each fragment.

    Raises:
        RunError: A fragment failed.
    """
    for runner in runtime.site.runners.values():
        if isinstance(runner, SlowedRunner):
            runner.calibrate(repeats)
        else:
            runner.run(make_inputs(runner.inputs))
        tick()
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
