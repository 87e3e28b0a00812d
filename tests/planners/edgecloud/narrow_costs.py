"""Costs by hand of an edge that gains by fewer bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from partita.compile import FragmentWork, Layout
from partita.cost import MemoryUse
from partita.regions import Region
from tests.planners.fakes import FakeCost


@dataclass(frozen=True)
class IntegerCost(FakeCost):
    """An edge that computes layers with quantised weights four times as fast."""

    def _layer_s(
        self, device: str, layer: str, boxes: Mapping[str, Region], *, is_merge: bool = False
    ) -> float:
        seconds = super()._layer_s(device, layer, boxes, is_merge=is_merge)
        entry = self.graph.bits.get(layer)
        bits = entry.weight if device == "d0" and entry is not None else None
        return seconds if bits is None else seconds * self.share(bits)

    def share(self, bits: int) -> float:
        """Return the part of a layer's seconds that it takes with so many bits."""
        return 0.25


@dataclass(frozen=True)
class NarrowCost(IntegerCost):
    """An edge whose time is that of bringing in weights; its memory holds them packed."""

    def share(self, bits: int) -> float:
        """Return the part of a layer's bits that is left."""
        return bits / 32

    def memory(self, layout: Layout) -> dict[str, MemoryUse]:
        """Return the bytes of packed weights, four bits each in the mean, and of all pieces."""
        return {name: self._packed(use) for name, use in super().memory(layout).items()}

    def work_memory(self, work: FragmentWork) -> MemoryUse:
        """Return the same of one fragment."""
        return self._packed(super().work_memory(work))

    def _packed(self, use: MemoryUse) -> MemoryUse:
        return replace(use, weights=use.weights // 8) if self.graph.bits else use
