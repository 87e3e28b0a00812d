"""On which grid the values of quantised tensors lie, and so how these travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partita.regions import CODE_BITS, Grid, Packing, read_format

if TYPE_CHECKING:
    from partita.graph.graph import Graph


def find_grids(graph: Graph) -> dict[str, Grid]:
    """The grid of every tensor that is quantised with one scale for all of it.

    Ask ``graph.remember(find_grids)``, which looks once.
    """
    packings = ((name, graph.packings.get(name)) for name in graph.tensors)
    return {
        name: _grid_of(packing)
        for name, packing in packings
        if packing is not None and packing.axis is None and packing.bits in CODE_BITS
    }


def _grid_of(packing: Packing) -> Grid:
    low, _ = packing.limits
    return Grid(packing.bits, float(packing.scale), int(packing.zero) - low)


def travel_formats(graph: Graph, asked: Mapping[str, str]) -> dict[str, str]:
    """The wire formats of tensors that do not travel raw: as asked, else codes of quantised ones.

    Args:
        asked: Formats by tensor; ``raw`` keeps a quantised tensor from travelling as codes, and
            ``zlib`` compresses these.
    """
    grids = graph.remember(find_grids)
    formats = {**{name: grid.wire for name, grid in grids.items()}, **asked}
    for name, wire in asked.items():
        if name in grids and read_format(wire).method == "zlib":
            formats[name] = f"{grids[name].wire}+{wire}"
    return formats
