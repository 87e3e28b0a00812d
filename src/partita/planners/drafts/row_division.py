"""Drafts that divide the first part of the network in rows and run the rest on one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partita.planners.drafts.draft import Draft, DraftAxis, DraftStage, share_cuts, whole_stages
from partita.planners.drafts.layer_order import LayerOrder


@dataclass(frozen=True)
class PrefixDivision:
    """How to divide: who takes part, with what shares, where stages end, and who runs the rest.

    Attributes:
        devices: Those that take part, in the order of their rows.
        shares: Of each, in any unit.
        boundaries: Where divided stages end, positions of the outline; the last ends all division.
        tail_device: The device that runs what is not divided.
    """

    devices: tuple[str, ...]
    shares: tuple[float, ...]
    boundaries: tuple[int, ...]
    tail_device: str


def divide(outline: LayerOrder, division: PrefixDivision) -> Draft:
    """The draft of a division.

    Between divided stages, means over space are summed where the rows are, and the small layers
    after them run on every device, so that the rows stay.
    """
    end = division.boundaries[-1] if division.boundaries else 0
    stops = sorted({*division.boundaries, *_kind_borders(outline, end), end} - {0})
    stages: list[DraftStage] = []
    start = 0
    for stop in stops:
        stages += _range_stages(outline, start, stop, division)
        start = stop
    return (*stages, *whole_stages(outline, end, len(outline), division.tail_device))


def _kind_borders(outline: LayerOrder, end: int) -> Iterable[int]:
    """Yield the places before ``end`` where the kind of layer changes; each sum is on its own."""
    for position in range(1, end):
        before, after = outline.kinds[position - 1], outline.kinds[position]
        if (
            before != after
            or after == "reduce"
            or outline.pins.get(position - 1) != outline.pins.get(position)
        ):
            yield position


def _range_stages(outline: LayerOrder, start: int, stop: int, division: PrefixDivision) -> Draft:
    if start in outline.pins:
        return whole_stages(outline, start, stop, outline.pins[start])
    kind = outline.kinds[start]
    if kind == "rows":
        cuts = share_cuts(division.shares, outline.rows(start, stop))
        return (DraftStage(start, stop, "rows", division.devices, cuts),)
    axis: DraftAxis = "reduce" if kind == "reduce" else "everywhere"
    is_last = stop == division.boundaries[-1]
    devices = (division.tail_device,) if is_last else division.devices
    return (DraftStage(start, stop, axis, devices),)


def shrink_positions(outline: LayerOrder, start: int, stop: int) -> list[int]:
    """The places in a divided range after which there are fewer rows or bytes to pass on.

    These are where stages may well end: right after a pooling or strided layer.
    """
    kept = []
    for position in range(start + 1, stop):
        if outline.live_bytes[position] < outline.live_bytes[position - 1]:
            kept.append(position)
    return kept


def thin(positions: Sequence[int], most: int) -> list[int]:
    """At most ``most`` of the positions, evenly spread, the last one among them."""
    if len(positions) <= most:
        return list(positions)
    step = len(positions) / most
    return sorted({positions[-1 - int(number * step)] for number in range(most)})
