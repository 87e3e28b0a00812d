"""Drafts: plans in the form that planners search in, a few numbers per stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Literal

from partita.plan import Shard, SplitAxis, Stage
from partita.planners.drafts.layer_order import LayerOrder
from partita.regions import Region

DraftAxis = Literal[
    "none",
    "everywhere",
    "rows",
    "tiles",
    "output_channels",
    "input_channels",
    "reduce",
    "replica",
]


@dataclass(frozen=True)
class DraftStage:
    """A range of the outline's order on some devices.

    Attributes:
        start: First layer, a position in the outline's order.
        stop: First layer after the stage.
        axis: How it is divided; ``reduce`` sums over the rows that each device holds, and all of
            the devices merge. ``input_channels`` sums over ranges of its one layer's input.
        devices: One for ``none``.
        cuts: For ``rows`` and channels: where each device's part starts, and the end. Counted in
            rows of the stage's highest output, in channels or in groups of them (heads). For
            ``tiles``: where each band of tiles starts; devices take the tiles of the first band,
            then of the second...
        columns: For ``tiles``: where each column of tiles starts, and the end.
        edge: For ``rows`` and ``tiles``: so many rows (and columns) along the borders with other
            devices are parts of their own, computed after the rest: while they wait for what
            neighbours send, the device computes what needs nothing. 0 for one part per device.
        shares: For ``replica``: as in :class:`partita.plan.Stage`.
        merge: For ``input_channels``: who adds the partial results, each all of them.
    """

    start: int
    stop: int
    axis: DraftAxis
    devices: tuple[str, ...]
    cuts: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    edge: int = 0
    shares: tuple[int, ...] = ()
    merge: tuple[str, ...] = ()

    @property
    def widths(self) -> list[int]:
        """How many rows or channels each device has; for ``tiles`` the heights of the bands."""
        return [stop - start for start, stop in pairwise(self.cuts)]

    def with_widths(self, widths: Iterable[int]) -> DraftStage:
        """The stage with other widths."""
        return replace(self, cuts=tuple(accumulate(widths, initial=0)))

    def __hash__(self) -> int:
        """The hash, found once: searches look the same stages up again and again."""
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            cuts = (self.cuts, self.columns, self.edge, self.shares, self.merge)
            known = hash((self.start, self.stop, self.axis, self.devices, cuts))
            object.__setattr__(self, "_hash", known)
        return known


#: Axes along which each device has boxes of the outputs of its own.
BOXED: tuple[DraftAxis, ...] = ("rows", "tiles", "output_channels")
#: Axes along which a search divides stages.
DIVIDED: tuple[DraftAxis, ...] = (*BOXED, "input_channels")
#: Axes along which each device has a part of the input, and the sum of what they make is wanted.
SUMMED: tuple[DraftAxis, ...] = ("reduce", "input_channels")
#: Stages in order; each begins where the one before ends.
Draft = tuple[DraftStage, ...]


def is_allowed(draft: Draft, axes: Sequence[str] | None) -> bool:
    """Whether a draft divides stages along the given axes only; all when None.

    Rows are tiles of one column.

    >>> is_allowed((DraftStage(0, 1, "rows", ("a", "b"), (0, 4, 8)),), ["tiles"])
    True
    """
    if axes is None:
        return True
    allowed = {*axes, "rows"} if "tiles" in axes else axes
    return all(stage.axis in allowed for stage in draft if stage.axis in DIVIDED)


class DraftLowering:
    """Turns drafts into stages and remembers the stages."""

    def __init__(self, outline: LayerOrder) -> None:
        self.outline = outline
        self._stages: dict[tuple[int, DraftStage, DraftStage | None], Stage] = {}

    def stages(self, draft: Draft) -> tuple[Stage, ...]:
        """The stages of a draft."""
        result = []
        for index, stage in enumerate(draft):
            owner = self.owner(draft[:index], stage)
            key = (index, stage, owner)
            lowered = self._stages.get(key)
            if lowered is None:
                lowered = self._stages[key] = self._stage(index, stage, owner)
            result.append(lowered)
        return tuple(result)

    def owner(self, before: Sequence[DraftStage], stage: DraftStage) -> DraftStage | None:
        """The stage whose ranges are summed: itself, for ``reduce`` that with its rows; or None."""
        if stage.axis == "input_channels":
            return stage
        if stage.axis != "reduce":
            return None
        tensor = self.summed(stage)
        for earlier in reversed(before):
            if tensor in self.outline.outputs(earlier.start, earlier.stop):
                return earlier if earlier.axis == "rows" else None
        return None

    def summed(self, stage: DraftStage) -> str:
        """The tensor over parts of which a stage sums."""
        layer = self.outline.graph.layer(self.outline.order[stage.start])
        return self.outline.works.regions.core_input(layer)

    def _stage(self, index: int, stage: DraftStage, owner: DraftStage | None) -> Stage:
        layers = self.outline.layers(stage.start, stage.stop)
        name = f"stage-{index}"
        if owner is not None:
            return self._summed_stage(name, stage, owner)
        axis: SplitAxis = "everywhere" if stage.axis == "reduce" else stage.axis
        if stage.axis in BOXED:
            return Stage(name, layers, axis, tuple(self._shards(stage)))
        shards = tuple(Shard(device) for device in stage.devices)
        return Stage(name, layers, axis, shards, shares=stage.shares)

    def _shards(self, stage: DraftStage) -> Iterable[Shard]:
        for number, device in enumerate(stage.devices):
            for boxes in self.parts(stage, number):
                yield Shard(device, boxes)

    @staticmethod
    def span_key(stage: DraftStage, number: int) -> tuple[object, ...]:
        """What tells the boxes of device ``number`` apart from those of others."""
        if not stage.cuts:
            return ()
        if stage.axis == "tiles":
            band, column = divmod(number, len(stage.columns) - 1)
            return (
                *(stage.cuts[band], stage.cuts[band + 1], stage.cuts[-1]),
                *(stage.columns[column], stage.columns[column + 1], stage.columns[-1]),
                stage.edge,
            )
        return (stage.axis, stage.cuts[number], stage.cuts[number + 1], stage.cuts[-1], stage.edge)

    def boxes(self, stage: DraftStage, number: int) -> dict[str, Region]:
        """What device ``number`` of a divided stage owns of each of its outputs."""
        outputs = self.outline.outputs(stage.start, stage.stop)
        return {tensor: self._box(stage, tensor, number) for tensor in outputs}

    def boxes_of(self, stage: DraftStage, number: int) -> dict[str, Region]:
        """What device ``number`` of any stage makes of each of its outputs."""
        if stage.axis in BOXED:
            return self.boxes(stage, number)
        outputs = self.outline.outputs(stage.start, stage.stop)
        return {tensor: Region.full(self.outline.graph.tensors[tensor].shape) for tensor in outputs}

    def parts(self, stage: DraftStage, number: int) -> list[dict[str, Region]]:
        """What device ``number`` of any stage makes, part by part in their order."""
        boxes = self.boxes_of(stage, number)
        if not stage.edge or stage.axis not in ("rows", "tiles"):
            return [boxes]
        cells = {tensor: self._cells(stage, tensor, box) for tensor, box in boxes.items()}
        if any(cell[0].is_empty for cell in cells.values()):
            return [boxes]
        parts = [dict(zip(cells, part, strict=True)) for part in zip(*cells.values(), strict=True)]
        return [part for part in parts if not all(box.is_empty for box in part.values())]

    def _cells(self, stage: DraftStage, tensor: str, box: Region) -> tuple[Region, ...]:
        """The inner part of a box, then its upper, lower, left and right edge."""
        axis = self.outline.axes.axis(tensor) or 0
        rows, unit = self.outline.axes.rows(tensor), self.outline.axes.unit(tensor)
        width = max(1, scale_cut(stage.edge, stage.cuts[-1], rows)) * unit
        upper, inner, lower = self._split_edges(tensor, box, axis, width)
        if not stage.columns:
            return inner, upper, lower
        extent = self.outline.graph.tensors[tensor].shape[axis + 1]
        width = max(1, scale_cut(stage.edge, stage.columns[-1], extent))
        left, inner, right = self._split_edges(tensor, inner, axis + 1, width)
        return inner, upper, lower, left, right

    def _split_edges(self, tensor: str, box: Region, axis: int, width: int) -> tuple[Region, ...]:
        """The first edge of a box along an axis, what is between, and the last edge."""
        start, stop = box.bounds[axis]
        low = start + width if start else start
        high = stop if stop == self.outline.graph.tensors[tensor].shape[axis] else stop - width
        spans = ((start, low), (low, max(low, high)), (max(low, high), stop))
        return tuple(box.with_axis(axis, span) for span in spans)

    def _box(self, stage: DraftStage, tensor: str, number: int) -> Region:
        """What shard ``number`` of a divided stage owns of one output."""
        shape = self.outline.graph.tensors[tensor].shape
        is_rows = stage.axis != "output_channels"
        axis = (self.outline.axes.axis if is_rows else self.outline.channel_axis)(tensor)
        if axis is None:
            raise ValueError(f"tensor {tensor!r} has no {'rows' if is_rows else 'channels'}")
        if not is_rows:
            return self._channel_box(stage, tensor, axis, number)
        rows, unit = self.outline.axes.rows(tensor), self.outline.axes.unit(tensor)
        band, column = divmod(number, len(stage.columns) - 1) if stage.columns else (number, 0)
        start, stop = (scale_cut(cut, stage.cuts[-1], rows) for cut in self._span(stage, band))
        end = shape[axis] if stop == rows else stop * unit
        box = Region.full(shape).with_axis(axis, (start * unit, end))
        if stage.columns:
            ends = stage.columns[column : column + 2]
            left, right = (scale_cut(cut, stage.columns[-1], shape[axis + 1]) for cut in ends)
            box = box.with_axis(axis + 1, (left, right))
        return box

    def _channel_box(self, stage: DraftStage, tensor: str, axis: int, number: int) -> Region:
        """A range of channels; cuts may be counted in groups of them, as heads of attention are."""
        shape = self.outline.graph.tensors[tensor].shape
        start, stop = (
            scale_cut(cut, stage.cuts[-1], shape[axis]) for cut in self._span(stage, number)
        )
        return Region.full(shape).with_axis(axis, (start, stop))

    @staticmethod
    def _span(stage: DraftStage, number: int) -> tuple[int, int]:
        return stage.cuts[number], stage.cuts[number + 1]

    def summands(self, stage: DraftStage, owner: DraftStage) -> list[tuple[str, Region]]:
        """Each device with the box of the input that it sums over.

        Args:
            owner: See :meth:`owner`.
        """
        tensor = self.summed(stage)
        axis = self.outline.input_axis(stage.start)
        if stage.axis == "reduce" or axis is None:
            boxes = [self._box(owner, tensor, number) for number in range(len(owner.devices))]
        else:
            parts = range(len(stage.devices))
            boxes = [self._channel_box(stage, tensor, axis, number) for number in parts]
        return list(zip(owner.devices, boxes, strict=True))

    @staticmethod
    def mergers(stage: DraftStage) -> tuple[str, ...]:
        """Who adds the partial results of a stage."""
        return stage.devices if stage.axis == "reduce" else stage.merge

    def _summed_stage(self, name: str, stage: DraftStage, owner: DraftStage) -> Stage:
        tensor = self.summed(stage)
        shards = tuple(Shard(device, {tensor: box}) for device, box in self.summands(stage, owner))
        merge = tuple(Shard(device) for device in self.mergers(stage))
        layers = self.outline.layers(stage.start, stage.stop)
        axis: SplitAxis = "rows" if stage.axis == "reduce" else "input_channels"
        return Stage(name, layers, axis, shards, merge)


def scale_cut(cut: int, height: int, rows: int) -> int:
    """A cut of ``height`` rows as the nearest cut of ``rows`` rows.

    >>> scale_cut(7, 10, 5)
    4
    """
    return cut if rows == height else (2 * cut * rows + height) // (2 * height)


def share_cuts(shares: Sequence[float], height: int) -> tuple[int, ...]:
    """Cuts that divide ``height`` rows in proportion to ``shares``.

    >>> share_cuts([1, 1, 2], 8)
    (0, 2, 4, 8)
    """
    total = sum(shares)
    cuts, reached = [0], 0.0
    for share in shares:
        reached += share
        cuts.append(min(height, max(cuts[-1], round(height * reached / total))))
    return (*cuts[:-1], height)


def whole_stages(outline: LayerOrder, start: int, stop: int, device: str) -> Draft:
    """A range on one device, but pinned layers where they are pinned."""
    if start >= stop:
        return ()
    places = [outline.pins.get(position, device) for position in range(start, stop)]
    inner = (start + n for n in range(1, stop - start) if places[n] != places[n - 1])
    return tuple(
        DraftStage(begin, end, "none", (places[begin - start],))
        for begin, end in pairwise((start, *inner, stop))
    )
