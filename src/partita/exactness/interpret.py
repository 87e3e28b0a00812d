"""A plain interpreter of programs in one process: the reference for what a run must answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from partita.compile import Compiled
from partita.engine import OrtEngine, Runner
from partita.execution.pieces import plan_codec
from partita.program import Compute, Deliver, Feed, Input, Program, Receive, Send, Step, is_active
from partita.regions import Array, Region

Arrays = Mapping[str, Array]


def run_program(
    compiled: Compiled, inputs: Arrays, route: tuple[int, ...] | None = None
) -> tuple[dict[str, Array], list[tuple[str, Region, Array]]]:
    """The outputs of a program, and every piece that its steps computed.

    A plain interpreter in one process, one step after the other: no state machine, no fabric. It is
    the reference for what the runtime must answer.

    Args:
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
        self._uses = Counter(
            step.fragment
            for device in compiled.program.devices
            for step in device.steps
            if isinstance(step, Compute)
        )
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

    def _try(self, step: Step, inputs: Arrays) -> bool:
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
        codec = plan_codec(stream)
        self._sent[step.stream] = codec.decode(codec.encode(part))

    def _compute(self, step: Compute) -> None:
        arrays = self._runner(step.fragment).run([self._assemble(read) for read in step.reads])
        self._uses[step.fragment] -= 1
        if not self._uses[step.fragment]:
            del self._runners[step.fragment]  # all at once would hold the weights twice
        probes = self._compiled.probes[step.fragment] if self._compiled.probes else ()
        count = len(step.writes)
        for (tensor, box), array in zip(probes, arrays[count:], strict=True):
            self.pieces.append((tensor, box, array))
        for buffer, array in zip(step.writes, arrays[:count], strict=True):
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
                part = array[read.box.relative_to(box).slices()]
                return np.ascontiguousarray(part).reshape(read.box.shape)
        result = np.empty(read.box.shape, held[0][1].dtype)
        for box, array in reversed(held):
            common = box.intersect(read.box)
            if not common.is_empty:
                target = result[common.relative_to(read.box).slices()]
                target[...] = array[common.relative_to(box).slices()]
        return result
