"""How much memory a layout takes on each device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from partita.compile import FragmentWork, Layout, loaded_works
from partita.cost.amount import pieces_bytes
from partita.cost.arena import INDEX_BYTES, arena_bytes
from partita.graph import Graph
from partita.program import (
    Buffer,
    Choice,
    Compute,
    DeviceProgram,
    Load,
    Program,
    Step,
    buffers_read,
    buffers_written,
    most_in_flight,
    type_bytes,
)

#: What a worker holds privately beyond an idle one: the process once it serves a plan, and each
#: fragment's session beside its weights, of which the engine holds one copy, rearranged for its
#: kernels. Chosen with ``python -m benchmarks.resident`` on MobileNet-v2, SqueezeNet, GoogLeNet,
#: DenseNet-201 and a part of Inception-v3, ONNX Runtime 1.32 on x86-64: 142 workers with 1 to 600
#: sessions hold 2 to 4 MB and 60 to 120 kB. The arena's rule and the index of its first range,
#: which the process has, too, have nothing that is chosen.
#:
#: What several fragments read each of them holds. The engine shares prepacked weights through a
#: container that its Python interface lacks. Optimised graphs that are written out and read again,
#: the weights of convolutions given from outside, hold 140 MB where copies take 309 (ResNet-50, of
#: whose rows a device has three parts, all made in one thread), and answer sooner; but workers,
#: which load in threads of their own, held 61 MB so and 42 with copies (MobileNet-v2), and loading
#: takes twice as long.
PROCESS_BYTES, SESSION_BYTES = 2_500_000 + INDEX_BYTES, 80_000
#: Of what a step reads in pieces: put together, and left of the step before, whose place is too
#: small or was cut. Chosen on DenseNet-201, Xception and SqueezeNet divided by channels.
_GATHERED_COPIES = 2
#: At most so many copies of what a fragment reads and makes count beside its pieces.
MOST_COPIES = 2


@dataclass(frozen=True)
class MemoryUse:
    """Bytes on one device.

    Attributes:
        fragments: How many the device loads.
        weights: Of all of them.
        pieces: Live pieces of tensors, for all requests in flight.
        arena: What the engine works with inside the largest fragment, beside what that makes: one
            arena serves all. What is put together of pieces for a fragment counts, too.
    """

    fragments: int
    weights: int
    pieces: int
    arena: int

    @property
    def overhead(self) -> int:
        """What process and sessions take whatever the fragments are."""
        return PROCESS_BYTES + self.fragments * SESSION_BYTES if self.fragments else 0

    @property
    def total(self) -> int:
        """All together."""
        return self.overhead + self.weights + self.pieces + self.arena


def device_memory(graph: Graph, layout: Layout, part: DeviceProgram) -> MemoryUse:
    """The memory of one device.

    Pieces are counted as if the steps ran in the program's order, each request in flight with its
    own, of a replica as many as it may have; a run that reorders steps can hold a little more. What
    a fragment makes stays where the engine made it: it is a piece, not the arena's.
    """
    alone = one_by_one(work_memory(graph, work) for work in loaded_works(layout, part))
    buffers = {buffer.id: buffer for buffer in part.buffers}
    steps = [step for step in part.steps if isinstance(step, Compute)]
    arenas = (
        arena_bytes(graph, layout.works[step.fragment])
        + _GATHERED_COPIES * _gathered_bytes(step, buffers)
        for step in steps
    )
    pieces = _peak_bytes(layout.program, part)
    return replace(alone, pieces=pieces, arena=max(arenas, default=0))


def work_memory(graph: Graph, work: FragmentWork) -> MemoryUse:
    """The memory of one fragment alone on a device, what it reads and makes for one request too."""
    pieces = pieces_bytes(graph, (*work.inputs, *work.outputs), "float32")
    return MemoryUse(1, work.weight_bytes, pieces, arena_bytes(graph, work))


def one_by_one(uses: Iterable[MemoryUse]) -> MemoryUse:
    """The memory of fragments that all stay loaded and run one after the other.

    >>> one_by_one([MemoryUse(1, 4, 20, 5), MemoryUse(1, 8, 10, 9)])
    MemoryUse(fragments=2, weights=12, pieces=20, arena=9)
    """
    known = list(uses)
    return MemoryUse(
        fragments=sum(use.fragments for use in known),
        weights=sum(use.weights for use in known),
        pieces=max((use.pieces for use in known), default=0),
        arena=max((use.arena for use in known), default=0),
    )


def together(uses: Iterable[MemoryUse]) -> MemoryUse:
    """The memory of several plans that are loaded on a device at the same time.

    Each has its own requests; all fragments work in one arena.

    >>> together([MemoryUse(1, 4, 20, 5), MemoryUse(1, 8, 10, 9)])
    MemoryUse(fragments=2, weights=12, pieces=30, arena=9)
    """
    known = list(uses)
    return replace(one_by_one(known), pieces=sum(use.pieces for use in known))


def _gathered_bytes(step: Compute, buffers: Mapping[int, Buffer]) -> int:
    """The bytes of a step's inputs that are no piece as it lies in memory."""
    total = 0
    for read in step.reads:
        sources = [buffers[number] for number in read.buffers]
        if [source.box for source in sources] != [read.box]:
            total += read.box.size * max((type_bytes(s.dtype) for s in sources), default=0)
    return total


def _peak_bytes(program: Program, part: DeviceProgram) -> int:
    """The most bytes of pieces at one time: one request computes, the others wait between steps."""
    routes = {frozenset(_when(step)) for step in part.steps}
    own = max((_pieces_held(part, route.issuperset)[0] for route in routes), default=0)
    _, others = _pieces_held(part, lambda when: most_in_flight(program, when) - 1)
    return own + others


def _pieces_held(
    part: DeviceProgram, requests: Callable[[tuple[Choice, ...]], int]
) -> tuple[int, int]:
    """The most bytes of pieces during a step, and between two, in the program's order.

    Args:
        requests: How many hold what is written by steps that belong to some choices.
    """
    sizes = {buffer.id: buffer.size_bytes for buffer in part.buffers}
    left = {buffer.id: buffer.readers for buffer in part.buffers}
    held = during = between = 0
    for step in part.steps:
        if isinstance(step, Load):
            continue
        writes = buffers_written(step)
        for buffer in writes:
            sizes[buffer] *= requests(_when(step))
            held += sizes[buffer]
        during = max(during, held)
        for buffer in (*buffers_read(step), *writes):
            if buffer not in writes:
                left[buffer] -= 1
            if left[buffer] <= 0:
                held -= sizes[buffer]
                sizes[buffer] = 0
        between = max(between, held)
    return during, between


def _when(step: Step) -> tuple[Choice, ...]:
    return getattr(step, "when", ())
