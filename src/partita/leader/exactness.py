"""Exactness: a plan's answers beside the whole model's, at every stage boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.compile import Compiled
from partita.engine import OrtEngine, Runner
from partita.program import Compute, Deliver, Feed, Input, Program, Receive, Send, is_active
from partita.regions import Region, decode_array, encode_array

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Difference:
    """How far one tensor of a divided run is from the whole model's.

    Attributes:
        max_difference: Largest absolute difference of any element of any piece.
        max_magnitude: Largest absolute value in the whole model's tensor.
    """

    tensor: str
    max_difference: float
    max_magnitude: float

    @property
    def relative(self) -> float:
        """Difference as a share of the largest magnitude."""
        if self.max_difference == 0.0:
            return 0.0
        return self.max_difference / self.max_magnitude if self.max_magnitude else float("inf")


def run_program(
    compiled: Compiled, inputs: Arrays, route: tuple[int, ...] | None = None
) -> tuple[dict[str, Array], list[tuple[str, Region, Array]]]:
    """Return the outputs of a program, and every piece that its steps computed.

    A plain interpreter in one process, one step after the other: no state machine, no fabric. It is
    the reference for what the runtime must answer.

    Args:
        compiled: The program with its fragments.
        inputs: The model's inputs by name.
        route: Alternative of each replicated stage; the first of each by default.
    """
    chosen = tuple(0 for _ in compiled.program.routes) if route is None else route
    return _Interpreter(compiled, chosen).run(inputs)


class _Interpreter:
    def __init__(self, compiled: Compiled, route: tuple[int, ...]) -> None:
        self._compiled = compiled
        self._program: Program = compiled.program
        self._route = route
        self._engine = OrtEngine(threads=1)
        self._runners: dict[int, Runner] = {}
        self._held: dict[int, tuple[Region, Array]] = {}
        self._sent: dict[int, Array] = {}
        self._outputs: dict[str, Array] = {}
        self.pieces: list[tuple[str, Region, Array]] = []
        self._buffers = {b.id: b for device in self._program.devices for b in device.buffers}

    def run(self, inputs: Arrays) -> tuple[dict[str, Array], list[tuple[str, Region, Array]]]:
        waiting = [list(device.steps) for device in self._program.devices]
        while any(waiting):
            before = sum(map(len, waiting))
            for steps in waiting:
                while steps and self._try(steps[0], inputs):
                    steps.pop(0)
            if sum(map(len, waiting)) == before:
                raise RuntimeError("the program waits for itself")
        return self._outputs, self.pieces

    def _try(self, step: Any, inputs: Arrays) -> bool:
        """Do a step if what it needs is there; return whether it is done."""
        if not is_active(getattr(step, "when", ()), self._route):
            return True
        if isinstance(step, Feed):
            self._keep(step.write, inputs[step.tensor])
        elif isinstance(step, Send):
            self._send(step)
        elif isinstance(step, Receive):
            if step.stream not in self._sent:
                return False
            self._keep(step.write, self._sent.pop(step.stream))
        elif isinstance(step, Compute):
            self._compute(step)
        elif isinstance(step, Deliver):
            self._outputs = {read.tensor: self._assemble(read) for read in step.reads}
        return True

    def _keep(self, buffer: int, array: Array) -> None:
        self._held[buffer] = (self._buffers[buffer].box, array)

    def _send(self, step: Send) -> None:
        stream = self._program.streams[step.stream]
        box, array = self._held[step.read]
        part = array[stream.box.relative_to(box).slices()]
        payload = encode_array(part, stream.wire)
        self._sent[step.stream] = decode_array(payload, stream.box.shape, stream.dtype, stream.wire)

    def _compute(self, step: Compute) -> None:
        arrays = self._runner(step.fragment).run([self._assemble(read) for read in step.reads])
        for buffer, array in zip(step.writes, arrays, strict=True):
            self._keep(buffer, array)
            self.pieces.append((self._buffers[buffer].tensor, self._buffers[buffer].box, array))

    def _runner(self, fragment: int) -> Runner:
        if fragment not in self._runners:
            info = self._program.fragments[fragment]
            blobs = {name: self._compiled.blobs[name] for name in info.blobs}
            self._runners[fragment] = self._engine.load(self._compiled.graphs[info.hash], blobs)
        return self._runners[fragment]

    def _assemble(self, read: Input) -> Array:
        held = [self._held[buffer] for buffer in read.buffers if buffer in self._held]
        for box, array in held:
            if box.contains(read.box):
                return np.ascontiguousarray(array[read.box.relative_to(box).slices()])
        result = np.empty(read.box.shape, held[0][1].dtype)
        for box, array in reversed(held):
            common = box.intersect(read.box)
            if not common.is_empty:
                target = result[common.relative_to(read.box).slices()]
                target[...] = array[common.relative_to(box).slices()]
        return result


def compare_pieces(pieces: list[tuple[str, Region, Array]], whole: Arrays) -> list[Difference]:
    """Return, per tensor that ``whole`` holds, the difference over all pieces."""
    worst: dict[str, float] = {}
    for tensor, box, array in pieces:
        if tensor not in whole:
            continue
        expected = whole[tensor][box.slices()]
        worst[tensor] = max(worst.get(tensor, 0.0), max_difference(array, expected))
    return [
        Difference(tensor, value, max_magnitude(whole[tensor])) for tensor, value in worst.items()
    ]


def max_difference(left: Array, right: Array) -> float:
    """Return the largest absolute difference; equal infinities and NaNs count as equal."""
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0))


def max_magnitude(array: Array) -> float:
    """Return the largest absolute finite value."""
    values = np.abs(np.asarray(array, np.float64))
    return float(values[np.isfinite(values)].max(initial=0.0))
