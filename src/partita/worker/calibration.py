"""Each step of an epoch run alone: warm-up on a real device, the emulated time on a slowed one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from partita.engine import (
    Reference,
    SlowedRunner,
    calibrate,
    draw_codes,
    draw_feature,
    make_inputs,
)
from partita.errors import LinkError, RunError, first_line
from partita.execution.pieces import Codec
from partita.regions import Array, read_format
from partita.worker.messages import Calibrate, Progress
from partita.worker.runtime import Runtime
from partita.worker.step_runners import ReceiveRunner, SendRunner

#: Codecs take microseconds: fewer runs, and the least of them would still hold a context switch.
_LEAST_REPEATS = 9
#: A reference of a few milliseconds before every run would double the calibration; the pace of a
#: shared machine wanders over minutes.
_FRESH_S = 0.05
#: What features, whose crests are about 1, are multiplied by for pictures: bytes have crests, too.
_BRIGHT = 80


class ReferencePace:
    """The machine's pace: seconds of the reference convolution, measured again when stale.

    Args:
        wanted_s: Seconds of the reference when the machine was profiled.
    """

    def __init__(self, wanted_s: float) -> None:
        self.wanted_s = wanted_s
        self._reference = Reference()
        self._measured_at_s, self._reference_s = -math.inf, 0.0

    def now_s(self) -> float:
        """Seconds that the reference takes now."""
        if time.monotonic() - self._measured_at_s > _FRESH_S:
            self._reference_s = self._reference.time_s()
            self._measured_at_s = time.monotonic()
        return self._reference_s


class Calibrations:
    """Epochs that are timed, each on a thread of its own.

    Args:
        owner: The worker, for threads and errors.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._jobs: dict[int, Progress] = {}

    def begin(self, runtime: Runtime, order: Calibrate) -> None:
        """Begin to time an epoch.

        Raises:
            RunError: That is under way already.
        """
        epoch, job = order.epoch, self._jobs.get(order.epoch)
        if job is not None and job.busy:
            raise RunError(f"Epoch {epoch} is being timed already on {self._owner!r}.")
        self._jobs[epoch] = Progress(True, 0, len(runtime.context.runners))
        name, work = f"{self._owner}/calibrate", partial(self._run, runtime, order)
        threading.Thread(target=work, name=name, daemon=True).start()

    def progress(self, epoch: int) -> Progress | None:
        """How far it is; None where it has not begun."""
        return self._jobs.get(epoch)

    def forget(self, epoch: int) -> None:
        """Forget an epoch that is over."""
        self._jobs.pop(epoch, None)

    def _run(self, runtime: Runtime, order: Calibrate) -> None:
        total, done, error, peer = len(runtime.context.runners), 0, "", ""

        def tick() -> None:
            nonlocal done
            done += 1
            self._jobs[order.epoch] = Progress(True, done, total)

        try:
            calibrate_runtime(runtime, order.repeats, tick, order.reference_s)
        except Exception as fault:  # whatever the engine raised: the leader reads it
            error = first_line(fault)
            peer = fault.device if isinstance(fault, LinkError) else ""
        self._jobs[order.epoch] = Progress(False, done, total, error, peer)


def calibrate_runtime(
    runtime: Runtime, repeats: int, tick: Callable[[], None], reference_s: float = 0.0
) -> None:
    """Run every fragment of ``runtime`` once; where slowed, measure the steps for the emulation.

    Args:
        runtime: A loaded epoch that is not active yet.
        repeats: Runs per step; the least counts.
        tick: Called after each fragment.
        reference_s: Seconds of the reference when the machine was profiled; 0 where it was not.

    Raises:
        RunError: A fragment failed.
    """
    runners = runtime.context.runners.values()
    slowed = [runner for runner in runners if isinstance(runner, SlowedRunner)]
    for runner in runners:
        if not isinstance(runner, SlowedRunner):
            runner.run(make_inputs(runner.inputs))
            tick()
    if slowed:
        pace = ReferencePace(reference_s) if reference_s else None
        calibrate(slowed, repeats, pace, tick)
    if runtime.pacing.slow_down.factor > 1:
        _calibrate_codecs(runtime, repeats)


def _calibrate_codecs(runtime: Runtime, repeats: int) -> None:
    for runner in runtime.step_runners.values():
        if isinstance(runner, SendRunner):
            array = draw_example(runner.codec, runtime.context.buffers[runner.read].box.shape)
            seconds = _least_s(partial(runner.codec.encode, array), repeats)
        elif isinstance(runner, ReceiveRunner) and not runner.is_instant:
            codec = runner.codec
            payload = codec.encode(draw_example(codec, codec.shape))
            seconds = _least_s(partial(codec.decode, payload), repeats)
        else:
            continue
        alone_s = runtime.pacing.alone_s
        alone_s[runner.step] = min(seconds, alone_s.get(runner.step, seconds))


def draw_example(codec: Codec, shape: Sequence[int]) -> Array:
    """A piece to be encoded; only where it is compressed does it matter what is in it.

    Of one that is packed without loss as much is left as is expected of the stream.
    """
    form, dtype = read_format(codec.wire), np.dtype(codec.dtype)
    if not form.method:
        return np.ones(shape, dtype)
    if form.method == "jpeg":
        return (draw_feature(shape) * _BRIGHT).astype(dtype)
    if codec.grid is None:
        return (
            draw_codes(math.prod(shape) * dtype.itemsize, 8, form.share).view(dtype).reshape(shape)
        )
    grid = codec.grid
    codes = draw_codes(math.prod(shape), grid.bits, form.share).reshape(shape)
    return np.asarray((codes.astype(np.float32) - grid.zero) * np.float32(grid.scale), dtype)


def _least_s(call: Callable[[], object], repeats: int) -> float:
    """Least seconds of several calls: other load can only add to them."""
    call()
    times = []
    for _ in range(max(repeats, _LEAST_REPEATS)):
        start_s = time.monotonic()
        call()
        times.append(time.monotonic() - start_s)
    return min(times)
