"""Small changes of drafts, for local search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations

from partita.planners.drafts.channel_pairs import is_pair
from partita.planners.drafts.draft import (
    SUMMED,
    Draft,
    DraftAxis,
    DraftStage,
    is_allowed,
    scale_cut,
    share_cuts,
    whole_stages,
)
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.search.device_moves import device_moves

#: A change of a draft; None where it does not apply.
Move = Callable[[Draft], Draft | None]
#: Of so many devices each gives rows to each other; of more, neighbours only.
MOST_PAIRED = 5
#: Places to cut a stage that are tried.
_MOST_SPLITS = 6


def count_rows(step: float, height: int) -> int:
    """The rows of a step: a part of the height, at least one row, or rows from 1 on.

    >>> count_rows(0.1, 56), count_rows(2, 56)
    (6, 2)
    """
    return int(step) if step >= 1 else max(1, round(step * height))


def shift(stage: DraftStage, giver: str, taker: str, rows: int) -> DraftStage | None:
    """The stage with ``rows`` moved between devices; None where the giver has none."""
    if stage.axis == "tiles" or not stage.cuts:
        return None
    if giver not in stage.devices or taker not in stage.devices:
        return None
    widths = stage.widths
    rows = min(rows, widths[stage.devices.index(giver)])
    if rows <= 0:
        return None
    widths[stage.devices.index(giver)] -= rows
    widths[stage.devices.index(taker)] += rows
    return stage.with_widths(widths)


class Moves:
    """Makes the moves of a draft.

    Args:
        devices: Those that may compute.
        speeds: Of each, in any unit.
        axes: Axes along which stages may be divided; all when None.
    """

    def __init__(
        self,
        outline: LayerOrder,
        devices: tuple[str, ...],
        speeds: Sequence[float],
        axes: Sequence[str] | None = None,
    ) -> None:
        self.outline = outline
        self.axes = axes
        self.devices = devices
        self.speeds = dict(zip(devices, speeds, strict=True))

    def numeric(self, draft: Draft, step: float) -> Iterator[Move]:
        """Yield shifts of rows: in all stages together, then in each alone.

        Args:
            step: Part of a stage's height that moves, at least one row; rows from 1 on.
        """
        used = [d for d in self.devices if any(d in s.devices and s.cuts for s in draft)]
        for giver, taker in _pairs(used):
            yield partial(self._shift_all, giver=giver, taker=taker, step=step)
        if len(used) > 2:
            for device in used:
                for sign in (-1, 1):
                    yield partial(self._level_all, device=device, part=sign * step)
        for index, stage in enumerate(draft):
            if stage.axis == "tiles":
                for sign in (-1, 1):
                    for border in range(1, len(stage.cuts) - 1):
                        yield partial(self._shift_band, at=(index, border), part=sign * step)
                    for border in range(1, len(stage.columns) - 1):
                        yield partial(self._shift_column, at=(index, border), part=sign * step)
            elif stage.cuts:
                for giver, taker in _pairs(stage.devices):
                    yield partial(self.shift_one, index=index, pair=(giver, taker), step=step)

    def _level_all(self, draft: Draft, device: str, part: float) -> Draft | None:
        """Move rows between a device and all others, in proportion to what they have."""
        changed = tuple(_level(stage, device, part) for stage in draft)
        return None if changed == draft else changed

    @staticmethod
    def _shift_band(draft: Draft, at: tuple[int, int], part: float) -> Draft | None:
        index, border = at
        cuts = _move_cut(draft[index].cuts, border, part)
        return None if cuts is None else _put(draft, index, replace(draft[index], cuts=cuts))

    @staticmethod
    def _shift_column(draft: Draft, at: tuple[int, int], part: float) -> Draft | None:
        index, border = at
        cuts = _move_cut(draft[index].columns, border, part)
        return None if cuts is None else _put(draft, index, replace(draft[index], columns=cuts))

    def _shift_all(self, draft: Draft, giver: str, taker: str, step: float) -> Draft | None:
        changed = tuple(
            shift(stage, giver, taker, _rows(stage, step)) or stage if stage.cuts else stage
            for stage in draft
        )
        return None if changed == draft else changed

    @staticmethod
    def shift_one(draft: Draft, index: int, pair: tuple[str, str], step: float) -> Draft | None:
        """The draft with rows of one stage, and of one joined to it by a sum, given to another."""
        stage = shift(draft[index], *pair, _rows(draft[index], step))
        if stage is None:
            return None
        changed = _put(draft, index, stage)
        if index + 1 < len(draft) and is_pair(draft[index], draft[index + 1]):
            return _put(changed, index + 1, replace(draft[index + 1], cuts=stage.cuts))
        return changed

    def structural(self, draft: Draft) -> Iterator[Draft]:
        """Yield drafts with other stages: merged, cut, moved borders, other axes or devices."""
        for kind in range(self.kinds):
            yield from self.structural_of(kind, draft)

    #: How many kinds of structural moves there are.
    kinds = 6

    def structural_of(self, kind: int, draft: Draft) -> Iterator[Draft]:
        """Yield the structural moves of one kind."""
        moves: tuple[Callable[[Draft], Iterator[Draft]], ...] = (
            partial(self._at_each, self._merged, 1),
            partial(self._at_each, self._elsewhere, 0),
            partial(self._at_each, self._moved_border, 1),
            self._without_device,
            partial(device_moves, devices=self.devices),
            partial(self._at_each, self._split, 0),
        )  # kept, they would keep this, and all of a search, from being freed
        return (moved for moved in moves[kind](draft) if is_allowed(moved, self.axes))

    @staticmethod
    def _at_each(
        move: Callable[[Draft, int], Iterator[Draft]], last: int, draft: Draft
    ) -> Iterator[Draft]:
        for index in range(len(draft) - last):
            yield from move(draft, index)

    def _merged(self, draft: Draft, index: int) -> Iterator[Draft]:
        first, second = draft[index], draft[index + 1]
        joined = self._join(first, second)
        if joined is not None:
            yield (*draft[:index], joined, *draft[index + 2 :])

    def _join(self, first: DraftStage, second: DraftStage) -> DraftStage | None:
        if first.axis != second.axis or first.axis in SUMMED:
            return None
        if first.axis == "rows":
            return self._rows_stage(first.start, second.stop, second)
        if first.axis == "tiles":
            return next(iter(self.resized(second, first.start, second.stop)), None)
        if first.devices != second.devices or first.axis == "output_channels":
            return None
        return DraftStage(first.start, second.stop, first.axis, first.devices)

    def _rows_stage(self, start: int, stop: int, like: DraftStage) -> DraftStage:
        """A divided range with the shares of another."""
        height = self.outline.rows(start, stop)
        cuts = tuple(scale_cut(cut, like.cuts[-1], height) for cut in like.cuts)
        return DraftStage(start, stop, "rows", like.devices, cuts, edge=like.edge)

    def _places(self, start: int, stop: int) -> list[int]:
        return sorted(self.outline.least_crossed(range(start + 1, stop))[:_MOST_SPLITS])

    def _split(self, draft: Draft, index: int) -> Iterator[Draft]:
        stage = draft[index]
        if stage.axis == "rows":
            for place in self._places(stage.start, stage.stop):
                parts = [
                    self._rows_stage(start, stop, stage)
                    for start, stop in ((stage.start, place), (place, stage.stop))
                ]
                yield (*draft[:index], *parts, *draft[index + 1 :])
        elif stage.axis == "none":
            yield from self._divided_front(draft, index)
            for place in self._places(stage.start, stage.stop):
                for device in self._hosts(draft):
                    if device != stage.devices[0]:
                        here = whole_stages(self.outline, stage.start, place, stage.devices[0])
                        there = whole_stages(self.outline, place, stage.stop, device)
                        yield (*draft[:index], *here, *there, *draft[index + 1 :])

    def _divided_front(self, draft: Draft, index: int) -> Iterator[Draft]:
        """Yield drafts in which the first layers of a whole stage are divided in rows."""
        stage = draft[index]
        end = stage.start
        while end < stage.stop and self.outline.is_divisible(end, end + 1):
            end += 1
        places = [*self._places(stage.start, end), end] if end > stage.start else []
        crews = [self.devices, *((d, stage.devices[0]) for d in self._hosts(draft))]
        for place in reversed(places):
            rest = whole_stages(self.outline, place, stage.stop, stage.devices[0])
            for crew in (crew for crew in crews if len(set(crew)) > 1):
                shares = [self.speeds.get(device, 1.0) for device in crew]
                cuts = share_cuts(shares, self.outline.rows(stage.start, place))
                front = DraftStage(stage.start, place, "rows", tuple(crew), cuts)
                yield (*draft[:index], front, *rest, *draft[index + 1 :])

    def _elsewhere(self, draft: Draft, index: int) -> Iterator[Draft]:
        """Yield drafts in which one stage runs on other devices or along another axis."""
        stage = draft[index]
        pinned = any(p in self.outline.pins for p in range(stage.start, stage.stop))
        if pinned:
            return
        for other in self._other_axes(stage):
            if other != stage:
                yield (*draft[:index], other, *draft[index + 1 :])
        for device in self._hosts(draft):
            if stage.axis not in ("reduce", "everywhere") and stage.devices != (device,):
                whole = DraftStage(stage.start, stage.stop, "none", (device,))
                yield (*draft[:index], whole, *draft[index + 1 :])
        if stage.axis == "none" and self.outline.kinds[stage.start] == "reduce":
            summed = DraftStage(stage.start, stage.start + 1, "reduce", stage.devices)
            rest = whole_stages(self.outline, stage.start + 1, stage.stop, stage.devices[0])
            yield (*draft[:index], summed, *rest, *draft[index + 1 :])

    def _hosts(self, draft: Draft) -> Sequence[str]:
        """Devices that may run a stage whole: of many, the fastest and those that do so."""
        if len(self.devices) <= MOST_PAIRED:
            return self.devices
        whole = (stage.devices[0] for stage in draft if stage.axis == "none")
        ranked = sorted(self.devices, key=lambda device: -self.speeds[device])
        return list(dict.fromkeys((*whole, *ranked[:MOST_PAIRED])))

    def _other_axes(self, stage: DraftStage) -> Iterator[DraftStage]:
        start, stop = stage.start, stage.stop
        shares = [self.speeds[device] for device in self.devices]
        if stage.axis in ("everywhere", "reduce"):
            for device in self._hosts((stage,)):
                yield DraftStage(start, stop, "none", (device,))
                if stage.axis == "reduce":
                    yield DraftStage(start, stop, "reduce", (device,))
            yield DraftStage(start, stop, stage.axis, self.devices)
            return
        if stage.axis in ("rows", "tiles") and self._may("tiles"):
            yield from self._tilings(stage)
        if stage.axis != "rows" and self.outline.is_divisible(start, stop):
            cuts = share_cuts(shares, self.outline.rows(start, stop))
            yield DraftStage(start, stop, "rows", self.devices, cuts)
        channels = self.outline.channels(start, stop)
        if stage.axis != "output_channels" and channels and self._may("output_channels"):
            cuts = share_cuts(shares, channels)
            yield DraftStage(start, stop, "output_channels", self.devices, cuts)

    def _tilings(self, stage: DraftStage) -> Iterator[DraftStage]:
        """Yield grids of tiles for the stage's devices, or for the fastest of all."""
        width = self.outline.columns(stage.start, stage.stop)
        height = self.outline.rows(stage.start, stage.stop)
        ranked = sorted(self.devices, key=lambda device: -self.speeds[device])
        counts = dict.fromkeys((len(set(stage.devices)), len(ranked), 4))
        for count in counts:
            crew = stage.devices if count == len(stage.devices) else tuple(ranked[:count])
            for columns in range(2, min(count, width) // 2 + 1):
                if count % columns or len(crew) != count:
                    continue
                bands = [
                    sum(self.speeds.get(d, 1.0) for d in crew[at : at + columns])
                    for at in range(0, count, columns)
                ]
                cuts = share_cuts(bands, height)
                ends = share_cuts([1.0] * columns, width)
                yield DraftStage(stage.start, stage.stop, "tiles", crew, cuts, ends)

    def _may(self, axis: DraftAxis) -> bool:
        return self.axes is None or axis in self.axes

    def _moved_border(self, draft: Draft, index: int) -> Iterator[Draft]:
        """Yield drafts in which the border after a stage lies elsewhere."""
        first, second = draft[index], draft[index + 1]
        if not {first.axis, second.axis} <= {"rows", "tiles", "none"}:
            return
        places = {first.stop - 1, first.stop + 1, first.stop - 2, first.stop + 2}
        places |= {p for p in self._places(first.start, second.stop) if p != first.stop}
        for place in sorted(places):
            if first.start < place < second.stop:
                left = self.resized(first, first.start, place)
                right = self.resized(second, place, second.stop)
                if left and right:
                    yield (*draft[:index], *left, *right, *draft[index + 2 :])

    def resized(self, stage: DraftStage, start: int, stop: int) -> Draft:
        """A stage over another range, divided alike; empty where that cannot be."""
        if stage.axis == "none":
            return whole_stages(self.outline, start, stop, stage.devices[0])
        if stage.axis == "everywhere":
            return (replace(stage, start=start, stop=stop),)
        if stage.axis not in ("rows", "tiles") or not self.outline.is_divisible(start, stop):
            return ()
        if stage.axis == "tiles":
            width = self.outline.columns(start, stop)
            if not width:  # the range ends where columns do not follow the image's width
                return ()
            cuts = self._rows_stage(start, stop, stage).cuts
            columns = tuple(scale_cut(cut, stage.columns[-1], width) for cut in stage.columns)
            return (replace(stage, start=start, stop=stop, cuts=cuts, columns=columns),)
        return (self._rows_stage(start, stop, stage),)

    def _without_device(self, draft: Draft) -> Iterator[Draft]:
        """Yield drafts in which one device has no part of what is divided, or joins again."""
        for device in self.devices:
            changed = tuple(_drop(stage, device) for stage in draft)
            if changed != draft:
                yield changed
            for index, stage in enumerate(draft):
                one = _drop(stage, device)
                if one != stage:
                    yield (*draft[:index], one, *draft[index + 1 :])


def prune(draft: Draft) -> Draft:
    """The draft without devices that have no part of a divided stage."""
    stages = []
    for stage in draft:
        widths = stage.widths if stage.cuts and stage.axis != "tiles" else []
        kept = [at for at, width in enumerate(widths) if width]
        if kept and len(kept) < len(widths):
            devices = tuple(stage.devices[at] for at in kept)
            stage = replace(stage, devices=devices).with_widths(widths[at] for at in kept)
        stages.append(stage)
    return tuple(stages)


def _pairs(devices: Sequence[str]) -> list[tuple[str, str]]:
    """Who may give rows to whom: all pairs of a few devices, neighbours of many."""
    if len(devices) <= MOST_PAIRED:
        return list(permutations(devices, 2))
    return [pair for one in pairwise(devices) for pair in (one, one[::-1])]


def _level(stage: DraftStage, device: str, part: float) -> DraftStage:
    """The stage with rows taken from a device for all others, or for it from them."""
    if device not in stage.devices or stage.axis == "tiles" or not stage.cuts:
        return stage
    widths = stage.widths
    at, total = stage.devices.index(device), stage.cuts[-1]
    rows = count_rows(abs(part), total)
    wanted = min(total, max(0, widths[at] + (rows if part > 0 else -rows)))
    rest = total - widths[at]
    if not rest:
        return stage
    shares = [width * (total - wanted) / rest for width in widths]
    shares[at] = wanted
    return replace(stage, cuts=share_cuts(shares, total))


def _move_cut(cuts: tuple[int, ...], border: int, part: float) -> tuple[int, ...] | None:
    rows = count_rows(abs(part), cuts[-1])
    place = cuts[border] + (rows if part > 0 else -rows)
    if not cuts[border - 1] < place < cuts[border + 1]:
        return None
    return (*cuts[:border], place, *cuts[border + 1 :])


def _put(draft: Draft, index: int, *stages: DraftStage) -> Draft:
    return (*draft[:index], *stages, *draft[index + 1 :])


def _rows(stage: DraftStage, step: float) -> int:
    return count_rows(step, stage.cuts[-1])


def _drop(stage: DraftStage, device: str) -> DraftStage:
    """The stage without a device; its rows go to its neighbours."""
    if device not in stage.devices or len(stage.devices) < 2 or stage.axis == "tiles":
        return stage
    index = stage.devices.index(device)
    devices = (*stage.devices[:index], *stage.devices[index + 1 :])
    if not stage.cuts:
        shares = (*stage.shares[:index], *stage.shares[index + 1 :])
        return replace(stage, devices=devices, shares=shares)
    widths = stage.widths
    rest = [width for at, width in enumerate(widths) if at != index]
    wanted = [width + 1e-6 for width in rest]
    return replace(stage, devices=devices, cuts=share_cuts(wanted, stage.cuts[-1]))
