"""Who holds which piece of a tensor, and what a device must fetch: found once per box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from partita.planners.pricing.transfers import Transfer, TransferCosts
from partita.regions import Interval, Region

#: Task of the block, device, box that it holds, box that it owns.
Piece = tuple[int, int, Region, Region]


class Fetch(NamedTuple):
    """How a device gets a box.

    Attributes:
        uses: Numbers of its own pieces, those that ``moves`` bring among them.
        moves: What is sent to it, in order; each becomes a new piece.
        after: What the device holds afterwards.
    """

    uses: tuple[int, ...]
    moves: tuple[Transfer, ...]
    after: DevicePieces


class TensorPlacement:
    """One tensor as a block makes it.

    Args:
        tensor: Its name.
        pieces: In program order.
        devices: Number of all devices.
    """

    def __init__(self, tensor: str, pieces: Sequence[Piece], devices: int) -> None:
        self.tensor = tensor
        held: list[list[Region]] = [[] for _ in range(devices)]
        self.owners: list[tuple[int, int, Region]] = []
        #: Per piece: the task that makes it, and the device.
        self.makers: list[tuple[int, int]] = []
        for task, device, box, owned in pieces:
            self.owners.append((device, len(held[device]), owned))
            self.makers.append((task, device))
            held[device].append(box)
        self.locals = [
            DevicePieces(self, device, tuple(boxes)) for device, boxes in enumerate(held)
        ]
        self.axis = _only_axis([owned for *_, owned in pieces])
        # Whether all boxes, what devices hold beyond their own too, differ along that axis alone.
        boxes = [one for *_, box, owned in pieces for one in (box, owned)]
        self.is_flat = self.axis is not None and _only_axis(boxes) == self.axis
        self.frame = _frame(pieces[0][3], self.axis)
        span_size = max(1, _length(pieces[0][3], self.axis))
        self.unit = pieces[0][3].size // span_size

    def near(self, box: Region) -> list[tuple[int, int, Region]]:
        """Return owners that may have a part of the box, in program order."""
        if self.axis is None:
            return self.owners
        start, stop = box.bounds[self.axis]
        return [
            owner
            for owner in self.owners
            if (span := owner[2].bounds[self.axis])[0] < stop and start < span[1]
        ]


def _frame(box: Region, axis: int | None) -> tuple[Interval, ...]:
    """Return the bounds of a box but for one axis."""
    if axis is None:
        return ()
    return (*box.bounds[:axis], *box.bounds[axis + 1 :])


def _length(box: Region, axis: int | None) -> int:
    if axis is None:
        return 1
    start, stop = box.bounds[axis]
    return stop - start


def _only_axis(boxes: Sequence[Region]) -> int | None:
    """Return the axis along which boxes differ, if there is one only."""
    first = boxes[0].bounds
    axes = {
        axis for box in boxes[1:] for axis, span in enumerate(box.bounds) if span != first[axis]
    }
    return axes.pop() if len(axes) == 1 else None


class DevicePieces:
    """A tensor's pieces on one device.

    Args:
        made: The tensor.
        device: Number of the device.
        boxes: Of the pieces, in the order in which the device got them.
    """

    __slots__ = ("boxes", "device", "known", "made")

    def __init__(self, made: TensorPlacement, device: int, boxes: tuple[Region, ...]) -> None:
        self.made = made
        self.device = device
        self.boxes = boxes
        #: By the number of what is read: how it is fetched, or None where it cannot be.
        self.known: dict[int, Fetch | None] = {}

    def fetch(self, box: Region, number: int, wires: TransferCosts) -> Fetch | None:
        """Return how the device gets a box, by the rules of ``build_layout``."""
        found = self._fetch(box, wires)
        self.known[number] = found
        return found

    def _fetch(self, box: Region, wires: TransferCosts) -> Fetch | None:
        made = self.made
        if made.is_flat and made.axis is not None and _frame(box, made.axis) == made.frame:
            return self._fetch_span(box, made.axis, wires)
        missing = [box]
        uses: list[int] = []
        for number, held in enumerate(self.boxes):
            if any(part.overlaps(held) for part in missing):
                uses.append(number)
                missing = [left for part in missing for left in part.subtract(held)]
                if not missing:
                    return Fetch(tuple(uses), (), self)
        moves: list[Transfer] = []
        boxes = list(self.boxes)
        for source, piece, owned in wires.nearest(self.device, self.made.near(box)):
            for part in list(missing):
                if not part.overlaps(owned):
                    continue
                common = part.intersect(owned)
                move = wires.move((source, piece), self.device, self.made.tensor, common.size)
                if move is None:
                    return None
                uses.append(len(boxes))
                boxes.append(common)
                moves.append(move)
                missing = [left for one in missing for left in one.subtract(common)]
            if not missing:
                return Fetch(
                    tuple(uses), tuple(moves), DevicePieces(self.made, self.device, tuple(boxes))
                )
        return None

    def _fetch_span(self, box: Region, axis: int, wires: TransferCosts) -> Fetch | None:
        """Return the fetch of a box where all boxes are spans of one axis: the same, in numbers."""
        missing = [box.bounds[axis]]
        uses: list[int] = []
        for number, held in enumerate(self.boxes):
            span = held.bounds[axis]
            if any(_overlap(part, span) for part in missing):
                uses.append(number)
                missing = [left for part in missing for left in _subtract(part, span)]
                if not missing:
                    return Fetch(tuple(uses), (), self)
        moves: list[Transfer] = []
        boxes = list(self.boxes)
        for source, piece, owned in wires.nearest(self.device, self.made.near(box)):
            span = owned.bounds[axis]
            for part in list(missing):
                if not _overlap(part, span):
                    continue
                common = (max(part[0], span[0]), min(part[1], span[1]))
                count = (common[1] - common[0]) * self.made.unit
                move = wires.move((source, piece), self.device, self.made.tensor, count)
                if move is None:
                    return None
                uses.append(len(boxes))
                boxes.append(box.with_axis(axis, common))
                moves.append(move)
                missing = [left for one in missing for left in _subtract(one, common)]
            if not missing:
                return Fetch(
                    tuple(uses), tuple(moves), DevicePieces(self.made, self.device, tuple(boxes))
                )
        return None


def _overlap(one: Interval, other: Interval) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def _subtract(one: Interval, other: Interval) -> list[Interval]:
    """Return what is left of a span without another."""
    if not _overlap(one, other):
        return [one] if one[0] < one[1] else []
    left = []
    if one[0] < other[0]:
        left.append((one[0], other[0]))
    if other[1] < one[1]:
        left.append((other[1], one[1]))
    return left
