"""Devices compute while halos travel: starts with a stage per window, and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from partita.planners.drafts.draft import (
    Draft,
    DraftAxis,
    DraftStage,
    share_cuts,
    whole_stages,
)
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.rows import device_speeds

#: Rows of edges that are tried: of 0 to 4, random search on VGG-16 with 2 to 8 devices (slow-downs
#: 4, 8, 12, 16 of a laptop, 200 Mbit/s, 2 ms) ended at 2 or 3.
_EDGES = (1, 2, 3)


def overlapped_draft(evaluator: Evaluator, axis: DraftAxis = "rows") -> Draft:
    """All layers divided in proportion to speed, a stage per window.

    Args:
        axis: ``rows``, or ``tiles`` for one column per device, each with all rows.
    """
    speeds = device_speeds(evaluator)
    return tuple(_stages(evaluator.outline, evaluator.devices, speeds, axis))


def edge_moves(draft: Draft) -> Iterator[Draft]:
    """Yield the draft with edges in all stages that are divided in rows or tiles."""
    for edge in _EDGES:
        yield tuple(
            replace(stage, edge=edge) if stage.axis in ("rows", "tiles") else stage
            for stage in draft
        )


def stage_edges(draft: Draft) -> Iterator[Draft]:
    """Yield the draft with another edge, or none, in one stage."""
    for index, stage in enumerate(draft):
        if stage.axis in ("rows", "tiles"):
            for edge in (0, *_EDGES):
                if edge != stage.edge:
                    yield (*draft[:index], replace(stage, edge=edge), *draft[index + 1 :])


def _stages(
    outline: LayerOrder, crew: tuple[str, ...], shares: Sequence[float], axis: DraftAxis
) -> Iterator[DraftStage]:
    for start, stop in pairwise(_borders(outline)):
        channels = outline.channels(start, stop)
        if outline.is_divisible(start, stop):
            rows, columns = outline.rows(start, stop), outline.columns(start, stop)
            if axis == "tiles" and columns:
                ends = share_cuts(shares, columns)
                yield DraftStage(start, stop, "tiles", crew, (0, rows), ends)
            else:
                yield DraftStage(start, stop, "rows", crew, share_cuts(shares, rows))
        elif channels and not any(p in outline.pins for p in range(start, stop)):
            yield DraftStage(start, stop, "output_channels", crew, share_cuts(shares, channels))
        else:
            yield from whole_stages(outline, start, stop, crew[shares.index(max(shares))])


def _borders(outline: LayerOrder) -> list[int]:
    """Where what follows reads beyond its own rows, or has no rows and weights."""
    borders = [0]
    for position in range(1, len(outline)):
        layer, before = (outline.graph.layer(outline.order[p]) for p in (position, position - 1))
        if outline.kinds[position] != "rows":
            was_rows = outline.kinds[position - 1] == "rows"
            is_border = was_rows or bool(layer.weight_bytes and before.weight_bytes)
        else:
            steps = layer.window and zip(layer.window.kernel, layer.window.stride, strict=True)
            is_border = any(kernel > stride for kernel, stride in steps or ())
        if is_border:
            borders.append(position)
    return [*borders, len(outline)]
