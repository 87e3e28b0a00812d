"""Plans where no device has the memory for the whole network: devices filled, layer after layer.

At each place the longest range that a device still has room for goes there whole; a layer that is
too large for any is divided along its output channels, or its rows, among several. What a device
holds is counted as if its stages were all; what pieces of other stages take beside that shows when
the draft is priced, and then less room is given out the next time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import inf
from typing import Literal

from partita.cost import MemoryUse
from partita.cost.memory import one_by_one
from partita.errors import OverfullError, PlanError
from partita.planners.drafts.draft import Draft, DraftAxis, DraftStage, share_cuts
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.rows import device_speeds

#: What becomes of a layer that the device being filled has no room for: ``ranges`` looks for one
#: that has, and divides the layer among few devices where none does; ``fluid`` divides it between
#: the device and the next ones, so that nothing stays empty; ``spread`` divides every layer with
#: weights among all devices by the room they have. ``tight`` is ``ranges``, but of devices that
#: have room for as long a range the one with least takes it, so that others keep theirs.
_Way = Literal["ranges", "fluid", "tight", "spread"]
#: Every device of ``spread`` sends to every other, layer after layer: tried last, and on so many.
_MOST_SPREAD = 16
_NOTHING = one_by_one(())
#: How often a draft is made again with less room. Not tuned.
_ROUNDS = 12
#: This part more of its room is held back, lest ever fewer bytes are missing. ResNet-50 on 64
#: devices of 8 MB lacks 335 bytes without, and fits with it.
_MARGIN = 0.001


def memory_starts(evaluator: Evaluator) -> list[Draft]:
    """Drafts that fill the evaluator's devices; those of them that fit, or all when none does.

    Made as long as bounds may be looked for: a plan that fits, however late, is better than none.
    """
    ways: list[tuple[_Way, ...]] = [("ranges", "fluid"), ("tight",)]
    if len(evaluator.devices) <= _MOST_SPREAD:
        ways.append(("spread",))
    drafts: dict[Draft, None] = {}
    for some in ways:
        for devices, way in product(_orders(evaluator), some):
            if drafts and evaluator.budget.is_long_over:
                break
            drafts[_refilled(evaluator, devices, way)] = None
        fitting = [draft for draft in drafts if evaluator.score(draft)[0] < inf]
        if fitting:
            return fitting
    return [draft for draft in drafts if draft]


def sure_starts(evaluator: Evaluator) -> list[Draft]:
    """A draft that fills the devices, if it fits; made whatever the time.

    As for one request in flight, so that ranges are whole if they can be: a plan with few stages is
    soon priced, and has as many requests in flight as there is room for.
    """
    *_, fewest = evaluator.fewer_in_flight()
    draft = _refilled(fewest, _orders(evaluator)[0], "ranges")
    return [draft] if draft and evaluator.score(draft)[0] < inf else []


def fill_once(evaluator: Evaluator) -> list[Draft]:
    """Devices filled a single time: where nothing fits, what lacks little on each.

    Nothing for more devices than it takes a moment to price layers on that all of them share.
    """
    if len(evaluator.devices) > _MOST_SPREAD:
        return []
    return [_Filling(evaluator, _rooms(evaluator, _orders(evaluator)[0]), "ranges").run()]


def _rooms(evaluator: Evaluator, devices: Sequence[str]) -> dict[str, int]:
    return {name: evaluator.cluster.device(name).memory_bytes for name in devices}


def _orders(evaluator: Evaluator) -> list[tuple[str, ...]]:
    """Which device is filled first: the one with most memory, or the fastest."""
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    sizes = {name: evaluator.cluster.device(name).memory_bytes for name in evaluator.devices}
    keys: tuple[Callable[[str], tuple[float, float]], ...] = (
        lambda name: (-sizes[name], -speeds[name]),
        lambda name: (-speeds[name], -sizes[name]),
    )
    return list(dict.fromkeys(tuple(sorted(evaluator.devices, key=key)) for key in keys))


def _refilled(evaluator: Evaluator, devices: Sequence[str], way: _Way) -> Draft:
    """The draft that lacks least memory, of those made with ever less room; empty without links."""
    rooms = _rooms(evaluator, devices)
    drafts: list[Draft] = []
    for _ in range(_ROUNDS):
        if drafts and evaluator.budget.is_long_over and evaluator.budget.is_over:
            break
        draft = _Filling(evaluator, rooms, way).run()
        try:
            evaluator.estimate(draft)
        except OverfullError as error:
            drafts.append(draft)
            for name, over in error.overflow_bytes.items():
                rooms[name] = rooms.get(name, 0) - over - int(_MARGIN * rooms.get(name, 0))
        except PlanError:
            break
        else:
            return draft
    return min(drafts, key=evaluator.score, default=())


class _Filling:
    """One pass over the layers.

    Args:
        rooms: Bytes that each device may take, in the order in which devices are filled.
    """

    def __init__(self, evaluator: Evaluator, rooms: Mapping[str, int], way: _Way) -> None:
        self._evaluator = evaluator
        self._outline = evaluator.outline
        self._rooms = rooms
        self._way = way
        self._devices = [name for name in rooms if name in evaluator.devices]
        # Pinned layers may be on a device that is none of these.
        self._uses: defaultdict[str, list[MemoryUse]] = defaultdict(list)
        self._first = 0  # the device being filled

    def run(self) -> Draft:
        """A draft of all layers; where nothing fits it takes what lacks least."""
        draft: list[DraftStage] = []
        start = 0
        while start < len(self._outline):
            stage = self._next(start)
            for number, device in enumerate(stage.devices):
                self._uses[device].append(self._memory(stage, number))
            draft.append(stage)
            start = stage.stop
        return tuple(draft)

    def _next(self, start: int) -> DraftStage:
        pin = self._outline.pins.get(start)
        if pin is not None:
            return DraftStage(start, start + 1, "none", (pin,))
        layer = self._outline.graph.layer(self._outline.order[start])
        if self._way == "spread" and layer.weight_bytes:
            divided = self._divided(start, "output_channels", self._devices)
            if divided is not None:
                return divided
        whole = self._whole(start)
        if whole is not None:
            return whole
        for axis in ("output_channels", "rows"):
            divided = self._divided(start, axis, self._devices)
            if divided is not None:
                return divided
        return self._nearest(start)

    def _whole(self, start: int) -> DraftStage | None:
        """The longest range that a device has room for; in the way ``fluid`` the device in turn."""
        best: DraftStage | None = None
        turned = [*self._devices[self._first :], *self._devices[: self._first]]
        if self._way == "tight":
            turned.sort(key=lambda device: self._rooms[device] - self._total(self._uses[device]))
        for device in turned[:1] if self._way == "fluid" else turned:
            stop = self._last_stop(start, device)
            if stop > start and (best is None or stop > best.stop):
                best = DraftStage(start, stop, "none", (device,))
        return best

    def _last_stop(self, start: int, device: str) -> int:
        """Where the longest range from ``start`` that a device has room for ends."""
        limit = min((p for p in self._outline.pins if p > start), default=len(self._outline))
        if self._way == "spread":
            limit = start + 1

        def fits(stop: int) -> bool:
            return self._fits(DraftStage(start, stop, "none", (device,)), 0)

        reach = 1
        while start + reach < limit and fits(start + reach):
            reach *= 2
        low, high = start + reach // 2, min(start + reach, limit)
        while low < high:  # the range up to low fits, or is empty; nothing beyond high is tried
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low

    def _divided(self, start: int, axis: DraftAxis, devices: Sequence[str]) -> DraftStage | None:
        """One layer divided among devices that have room for their parts; None where they lack."""
        height = self._height(start, axis)
        if height < 2:
            return None
        most = {device: self._most(start, axis, device, height) for device in devices}
        taken = {device: most[device] for device in self._takers(most, height)}
        if sum(taken.values()) < height:
            return None
        kept = [device for device in devices if taken.get(device)]
        if self._way == "fluid":
            widths, left = [], height
            for device in kept:
                widths.append(min(left, taken[device]))
                left -= widths[-1]
            self._first = self._devices.index(kept[-1])
        else:
            cuts = share_cuts([taken[device] for device in kept], height)
            widths = [high - low for low, high in pairwise(cuts)]
        stage = DraftStage(start, start + 1, axis, tuple(kept)).with_widths(widths)
        return stage if len(kept) > 1 else replace(stage, axis="none", cuts=())

    def _takers(self, most: Mapping[str, int], height: int) -> Iterator[str]:
        """Yield the devices that take part: by room or in turn, until they suffice, or all."""
        turned = [*self._devices[self._first :], *self._devices[: self._first]]
        if self._way in ("ranges", "tight"):
            turned.sort(key=lambda device: -most[device])
        reached = 0
        for device in turned:
            if reached < height or self._way == "spread":
                yield device
            reached += most[device]

    def _height(self, start: int, axis: DraftAxis) -> int:
        axes = self._evaluator.options.axes
        if axes is not None and axis not in axes:
            return 0
        if axis == "output_channels":
            return self._outline.channels(start, start + 1)
        is_divisible = self._outline.is_divisible(start, start + 1)
        return self._outline.rows(start, start + 1) if is_divisible else 0

    def _most(self, start: int, axis: DraftAxis, device: str, height: int) -> int:
        """The most channels or rows of a layer that a device has room for.

        Those in the middle count: of them no border makes a part smaller.
        """
        low, high = 0, height
        while low < high:
            middle = (low + high + 1) // 2
            before = (height - middle) // 2
            cuts = (0, before, before + middle, height)
            part = DraftStage(start, start + 1, axis, (device,) * 3, cuts)
            low, high = (middle, high) if self._fits(part, 1) else (low, middle - 1)
        return low

    def _nearest(self, start: int) -> DraftStage:
        """What may be done with a layer that there is no room for: all devices share what lacks."""
        devices = tuple(self._devices)
        rooms = [
            max(1, self._rooms[device] - self._total(self._uses[device])) for device in devices
        ]
        for axis in ("output_channels", "rows"):
            height = self._height(start, axis)
            if height > 1 and len(devices) > 1:
                return DraftStage(start, start + 1, axis, devices, share_cuts(rooms, height))
        return DraftStage(start, start + 1, "none", (devices[rooms.index(max(rooms))],))

    def _memory(self, stage: DraftStage, number: int) -> MemoryUse:
        if stage.axis == "none":
            return self._evaluator.ranges.fragment_memory(stage.start, stage.stop)
        layers = self._outline.layers(stage.start, stage.stop)
        boxes = self._evaluator.problem.lowering.boxes_of(stage, number)
        if all(box.is_empty for box in boxes.values()):
            return _NOTHING
        return self._evaluator.cost.work_memory(self._outline.works.stage(layers, boxes))

    def _total(self, uses: Sequence[MemoryUse]) -> int:
        use = one_by_one(uses)
        return replace(use, pieces=use.pieces * self._evaluator.options.in_flight).total

    def _fits(self, stage: DraftStage, number: int) -> bool:
        device = stage.devices[number]
        uses = [*self._uses[device], self._memory(stage, number)]
        return self._total(uses) <= self._rooms[device]
