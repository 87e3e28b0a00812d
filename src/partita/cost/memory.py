"""How much memory a layout takes on each device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest

from partita.compile import FragmentWork, Layout, loaded_works
from partita.cost.amount import pieces_bytes
from partita.graph import Graph
from partita.program import DeviceProgram, Load, buffers_read, buffers_written

#: ONNX Runtime packs weights for its kernels and keeps both: a VGG-16 of 550 MB takes 964 MB.
PACKED_SHARE = 0.75


@dataclass(frozen=True)
class MemoryUse:
    """Bytes on one device.

    Attributes:
        weights: Of all fragments that the device loads.
        packed: The engine's own copies of them.
        pieces: Live pieces of tensors, for all requests in flight.
        arena: What the engine holds inside the largest fragment.
    """

    weights: int
    packed: int
    pieces: int
    arena: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.packed + self.pieces + self.arena


def device_memory(graph: Graph, layout: Layout, part: DeviceProgram) -> MemoryUse:
    """The memory of one device.

    Pieces are counted as if the steps ran in the program's order, each request in flight with its
    own; a run that reorders steps can hold a little more.
    """
    alone = one_by_one(work_memory(graph, work) for work in loaded_works(layout, part))
    return replace(alone, pieces=_peak_bytes(part) * layout.program.in_flight)


def work_memory(graph: Graph, work: FragmentWork) -> MemoryUse:
    """The memory of one fragment alone on a device, what it reads and makes for one request too."""
    pieces = pieces_bytes(graph, (*work.inputs, *work.outputs), "float32")
    packed = int(work.weight_bytes * PACKED_SHARE)
    return MemoryUse(work.weight_bytes, packed, pieces, _arena_bytes(graph, work))


def one_by_one(uses: Iterable[MemoryUse]) -> MemoryUse:
    """The memory of fragments that all stay loaded and run one after the other.

    >>> one_by_one([MemoryUse(4, 3, 20, 5), MemoryUse(8, 6, 10, 9)])
    MemoryUse(weights=12, packed=9, pieces=20, arena=9)
    """
    known = list(uses)
    weights = sum(use.weights for use in known)
    return MemoryUse(
        weights=weights,
        packed=int(weights * PACKED_SHARE),
        pieces=max((use.pieces for use in known), default=0),
        arena=max((use.arena for use in known), default=0),
    )


def _arena_bytes(graph: Graph, work: FragmentWork) -> int:
    """The most bytes of neighbouring layers' outputs inside a fragment."""
    sizes = [pieces_bytes(graph, item.boxes, "float32") for item in work.layers]
    return max((a + b for a, b in zip_longest(sizes, sizes[1:], fillvalue=0)), default=0)


def _peak_bytes(part: DeviceProgram) -> int:
    sizes = {buffer.id: buffer.size_bytes for buffer in part.buffers}
    left = {buffer.id: buffer.readers for buffer in part.buffers}
    held = peak = 0
    for step in part.steps:
        if isinstance(step, Load):
            continue
        writes = buffers_written(step)
        for buffer in writes:
            held += sizes[buffer]
        peak = max(peak, held)
        for buffer in (*buffers_read(step), *writes):
            if buffer not in writes:
                left[buffer] -= 1
            if left[buffer] <= 0 and sizes[buffer]:
                held -= sizes[buffer]
                sizes[buffer] = 0
    return peak
