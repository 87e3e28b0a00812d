"""Where layer-volumes may end, in any network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from partita.planners.drafts.layer_order import LayerOrder

#: A place is no end of a volume when one of the next so many is crossed by fewer tensors: branches
#: of a block stay together, while taps of a detector's heads do not forbid to cut after them. A
#: round number, not tuned.
LOOK_AHEAD = 16


@dataclass(frozen=True)
class Volume:
    """A layer-volume: layers ``start`` to ``stop`` of the outline's order, all with rows."""

    start: int
    stop: int


@dataclass(frozen=True)
class Run:
    """A range of layers with rows, and the places in it where a volume may start."""

    start: int
    stop: int
    places: tuple[int, ...]

    def volumes(self, starts: Sequence[int]) -> tuple[Volume, ...]:
        """The run cut at those ``starts`` that lie in it."""
        inner = sorted({place for place in starts if self.start < place < self.stop})
        return tuple(Volume(*pair) for pair in pairwise((self.start, *inner, self.stop)))


def find_runs(outline: LayerOrder) -> tuple[Run, ...]:
    """The ranges that can be divided in rows, with their places; none where nothing can."""
    return tuple(Run(start, stop, _places(outline, start, stop)) for start, stop in _runs(outline))


def _runs(outline: LayerOrder) -> list[tuple[int, int]]:
    return [(start, stop) for start, stop in outline.row_runs() if outline.outputs(start, stop)]


def _places(outline: LayerOrder, start: int, stop: int) -> tuple[int, ...]:
    crossing = [_count_crossing(outline, place, stop) for place in range(start, stop)]
    places = []
    for offset in range(1, stop - start):
        ahead = crossing[offset + 1 : offset + 1 + LOOK_AHEAD]
        if crossing[offset] <= min(ahead, default=crossing[offset]):
            places.append(start + offset)
    return tuple(places)


def _count_crossing(outline: LayerOrder, place: int, stop: int) -> int:
    """How many tensors made before a place are read between it and the run's end."""
    later = set(outline.layers(place, stop))
    graph = outline.graph
    return sum(
        any(reader.name in later for reader in graph.readers(tensor))
        for tensor in outline.live(place)
    )
