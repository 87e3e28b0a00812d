"""Who holds which piece of a tensor, and what a device must fetch: found once per box.

Nothing here refers to what refers to it: a search makes millions of these, and they must be gone
with it, without a search for cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from partita.compile.placement import REGIONS, SPANS, fetch_missing, use_held
from partita.planners.pricing.transfers import Owner, Transfer, TransferCosts
from partita.regions import Interval, Region

Mark = TypeVar("Mark")


class Piece(NamedTuple):
    """What one task makes of a tensor.

    Attributes:
        task: Its number in the block.
        box: What the device then holds.
        owned: What it owns of that: what others fetch from it.
    """

    task: int
    device: int
    box: Region
    owned: Region


class Fetch(NamedTuple):
    """How a device gets a box.

    Attributes:
        uses: Numbers of its own pieces, those that ``moves`` bring among them.
        moves: What is sent to it, in order; each becomes a new piece.
        after: What the device holds afterwards; None where nothing is sent.
    """

    uses: tuple[int, ...]
    moves: tuple[Transfer, ...]
    after: DevicePieces | None


class OwnedTensor:
    """What devices own of one tensor.

    Args:
        pieces: In program order.

    Attributes:
        axis: The one axis along which what they own differs, if there is one only.
        frame: The bounds of all that is owned but along that axis.
        unit: Elements per position of that axis.
    """

    __slots__ = ("_owners", "axis", "frame", "tensor", "unit")

    def __init__(self, tensor: str, pieces: Sequence[Piece]) -> None:
        self.tensor = tensor
        self.axis = axis = _only_axis([piece.owned for piece in pieces])
        self._owners: list[Owner] = []
        counts: dict[int, int] = {}
        for _, device, _, owned in pieces:
            number = counts.get(device, 0)
            counts[device] = number + 1
            span = (0, 0) if axis is None else owned.bounds[axis]
            self._owners.append(Owner(device, number, owned, span))
        self.frame = _frame(pieces[0].owned, axis)
        self.unit = 1
        for start, stop in self.frame:
            self.unit *= stop - start

    def near(self, box: Region) -> list[Owner]:
        """Owners that may have a part of the box, in program order."""
        if self.axis is None:
            return self._owners
        start, stop = box.bounds[self.axis]
        return [owner for owner in self._owners if owner.span[0] < stop and start < owner.span[1]]


class TensorPlacement:
    """One tensor as a block makes it.

    Args:
        pieces: In program order.

    Attributes:
        makers: Per piece: the task that makes it, and the device.
        locals: Per device: what it holds at first.
    """

    __slots__ = ("locals", "makers")

    def __init__(self, tensor: str, pieces: Sequence[Piece], devices: int) -> None:
        self.makers = [(piece.task, piece.device) for piece in pieces]
        owned = OwnedTensor(tensor, pieces)
        axis = owned.axis
        # Where all boxes, what devices hold beyond their own too, differ along one axis alone.
        is_flat = axis is not None and all(_frame(one.box, axis) == owned.frame for one in pieces)
        held: list[list[Region]] = [[] for _ in range(devices)]
        for piece in pieces:
            held[piece.device].append(piece.box)
        self.locals = [
            DevicePieces(
                owned,
                device,
                () if is_flat else tuple(boxes),
                tuple(box.bounds[axis] for box in boxes) if axis is not None and is_flat else None,
            )
            for device, boxes in enumerate(held)
        ]


class Holdings(Generic[Mark]):
    """What devices hold of one tensor, with a mark on each piece.

    Args:
        pieces: Per device.
        marks: Per device, of its pieces: when each is there, or which step makes it.
    """

    __slots__ = ("marks", "pieces")

    def __init__(self, pieces: list[DevicePieces], marks: list[tuple[Mark, ...]]) -> None:
        self.pieces = pieces
        self.marks = marks

    @classmethod
    def of(cls, placement: TensorPlacement, marks: Sequence[Mark]) -> Holdings[Mark]:
        """What devices hold of a new tensor, with the marks of the tasks that make it.

        It shares the placement's list: who changes it takes a copy.
        """
        by_device: list[tuple[Mark, ...]] = [()] * len(placement.locals)
        for task, device in placement.makers:
            by_device[device] += (marks[task],)
        return cls(placement.locals, by_device)

    def copy(self) -> Holdings[Mark]:
        """The same, to be changed without changing this."""
        return Holdings(self.pieces.copy(), self.marks.copy())

    def put(self, device: int, pieces: DevicePieces, marks: tuple[Mark, ...]) -> None:
        """Change what one of the devices holds: it has fetched."""
        self.pieces[device] = pieces
        self.marks[device] = marks


class DevicePieces:
    """A tensor's pieces on one device, in the order in which the device got them.

    Args:
        boxes: Of the pieces; empty where they are given as spans.
        spans: Of the pieces along the tensor's axis, where all have its frame.
    """

    __slots__ = ("_boxes", "_device", "_owned", "_spans", "known")

    def __init__(
        self,
        owned: OwnedTensor,
        device: int,
        boxes: tuple[Region, ...],
        spans: tuple[Interval, ...] | None = None,
    ) -> None:
        self._owned = owned
        self._device = device
        self._boxes = boxes
        self._spans = spans
        #: By the number of what is read: how it is fetched, or None where it cannot be.
        self.known: dict[int, Fetch | None] = {}

    def fetch(self, box: Region, number: int, costs: TransferCosts) -> Fetch | None:
        """How the device gets a box, by the rule of :mod:`partita.compile.placement`."""
        axis, spans = self._owned.axis, self._spans
        if spans is not None and axis is not None and _frame(box, axis) == self._owned.frame:
            fetch = self._fetch_span(box, axis, spans, costs)
        else:
            fetch = self._fetch_box(box, costs)
        self.known[number] = fetch
        return fetch

    def _fetch_span(
        self, box: Region, axis: int, held: tuple[Interval, ...], costs: TransferCosts
    ) -> Fetch | None:
        used, missing = use_held(SPANS, box.bounds[axis], held)
        if not missing:
            return Fetch(tuple(used), (), None)
        owners = costs.nearest(self._device, self._owned.near(box))
        sent, missing = fetch_missing(SPANS, missing, [owner.span for owner in owners])
        if missing:
            return None
        unit = self._owned.unit
        parts = [(owners[number], (stop - start) * unit) for number, (start, stop) in sent]
        spans = (*held, *[part for _, part in sent])
        return self._moved(used, parts, DevicePieces(self._owned, self._device, (), spans), costs)

    def _fetch_box(self, box: Region, costs: TransferCosts) -> Fetch | None:
        held = self._held()
        used, missing = use_held(REGIONS, box, held)
        if not missing:
            return Fetch(tuple(used), (), None)
        owners = costs.nearest(self._device, self._owned.near(box))
        sent, missing = fetch_missing(REGIONS, missing, [owner.box for owner in owners])
        if missing:
            return None
        parts = [(owners[number], part.size) for number, part in sent]
        boxes = (*held, *[part for _, part in sent])
        return self._moved(used, parts, DevicePieces(self._owned, self._device, boxes), costs)

    def _held(self) -> tuple[Region, ...]:
        axis, frame = self._owned.axis, self._owned.frame
        if self._spans is None or axis is None:
            return self._boxes
        return tuple(Region((*frame[:axis], span, *frame[axis:])) for span in self._spans)

    def _moved(
        self,
        used: list[int],
        parts: Sequence[tuple[Owner, int]],
        after: DevicePieces,
        costs: TransferCosts,
    ) -> Fetch | None:
        """A fetch with these parts sent; None where one of them must not be."""
        first = len(self._boxes if self._spans is None else self._spans)
        moves = []
        for owner, count in parts:
            move = costs.move(owner, self._device, self._owned.tensor, count)
            if move is None:
                return None
            moves.append(move)
        return Fetch((*used, *range(first, first + len(moves))), tuple(moves), after)


def _frame(box: Region, axis: int | None) -> tuple[Interval, ...]:
    """The bounds of a box but for one axis."""
    return () if axis is None else (*box.bounds[:axis], *box.bounds[axis + 1 :])


def _only_axis(boxes: Sequence[Region]) -> int | None:
    """The axis along which boxes differ, if there is one only."""
    first = boxes[0].bounds
    only = None
    for box in boxes[1:]:
        if box.bounds == first:
            continue
        for axis, span in enumerate(box.bounds):
            if span != first[axis] and axis != only:
                if only is not None:
                    return None
                only = axis
    return only
