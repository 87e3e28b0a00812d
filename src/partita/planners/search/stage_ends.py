"""Where divided stages should end, by dynamic programming, for fixed shares of rows."""

from __future__ import annotations

from collections.abc import Sequence

from partita.planners.drafts.draft import Draft, DraftStage, share_cuts
from partita.planners.drafts.least_chains import least_chains
from partita.planners.drafts.row_division import PrefixDivision, divide
from partita.planners.pricing.evaluator import Evaluator
from partita.regions import Region

#: Dynamic programming looks at no more places than this.
MOST_PLACES = 16


class StageEnds:
    """Costs of divided ranges, each thought to begin when the one before has ended everywhere.

    Args:
        shares: Of each, in any unit.
    """

    def __init__(
        self, evaluator: Evaluator, devices: tuple[str, ...], shares: Sequence[float]
    ) -> None:
        self._evaluator = evaluator
        self._outline = evaluator.outline
        self.devices = devices
        self.shares = tuple(shares)
        self._costs = evaluator.ranges

    def draft(self, home: str) -> Draft:
        """The best division that ends on device ``home``; empty when there is none."""
        places = self._places()
        chains = least_chains(places, self._range_s)
        ends = {stop: one.cost + self._rest_s(stop, home) for stop, one in chains.items()}
        if not ends:
            return ()
        end = min(ends, key=lambda stop: (ends[stop], stop))
        division = PrefixDivision(self.devices, self.shares, chains[end].ends, home)
        return divide(self._outline, division)

    def _places(self) -> list[int]:
        """Where stages may end: borders of kinds, and places that few bytes cross."""
        outline = self._outline
        borders = {0}
        inner: list[int] = []
        for start, stop in outline.row_runs():
            borders |= {start, stop}
            if stop < len(outline) and outline.kinds[stop] == "reduce":
                borders.add(stop + 1)
            inner += range(start + 1, stop)
        inner = [place for place in inner if place not in borders]
        inner = outline.least_crossed(inner)
        return sorted(borders | set(inner[: max(0, MOST_PLACES - len(borders))]))

    def _range_s(self, start: int, stop: int) -> float:
        """The seconds of a range: the slowest device with what it must receive."""
        outline = self._outline
        kinds = {outline.kinds[p] for p in range(start, stop)}
        if any(p in outline.pins for p in range(start, stop)) or len(kinds) > 1:
            return float("inf")
        if kinds == {"reduce"}:
            return self._reduce_s(start)
        if kinds != {"rows"}:
            return max(self._costs.work_s(start, stop, device) for device in self.devices)
        cuts = share_cuts(self.shares, outline.rows(start, stop))
        stage = DraftStage(start, stop, "rows", self.devices, cuts)
        return max(
            (self._part_s(stage, number) for number in range(len(self.devices))), default=0.0
        )

    def _reduce_s(self, position: int) -> float:
        """The seconds of summing own rows, and of exchanging the small sums."""
        total = sum(self.shares)
        work = max(
            self._costs.work_s(position, position + 1, device) * share / total
            for device, share in zip(self.devices, self.shares, strict=True)
        )
        pairs = zip(self.devices, self.devices[1:], strict=False)
        return work + max((self._evaluator.cost.transfer_s(*pair, 0) for pair in pairs), default=0)

    def _part_s(self, stage: DraftStage, number: int) -> float:
        evaluator, device = self._evaluator, self.devices[number]
        boxes = evaluator.problem.lowering.boxes(stage, number)
        if all(box.is_empty for box in boxes.values()):
            return 0.0
        work = self._outline.works.stage(self._outline.layers(stage.start, stage.stop), boxes)
        received = 0.0
        for tensor, box in work.inputs:
            received = max(received, self._receive_s(tensor, box, number))
        return evaluator.cost.work_s(device, work) + received

    def _receive_s(self, tensor: str, box: Region, number: int) -> float:
        """The seconds to get what is missing of an input: from the requester, or halos."""
        evaluator, device = self._evaluator, self.devices[number]
        outline = self._outline
        source = evaluator.requester
        missing = box.size
        if tensor not in outline.graph.inputs:
            axis = outline.axes.axis(tensor)
            if axis is None:
                return 0.0
            rows, unit = outline.axes.rows(tensor), outline.axes.unit(tensor)
            cuts = share_cuts(self.shares, rows)
            own = box.with_axis(axis, (cuts[number] * unit, cuts[number + 1] * unit))
            missing = sum(part.size for part in box.subtract(own))
            source = self.devices[number - 1 if number else min(1, len(self.devices) - 1)]
        if source == device or not missing:
            return 0.0
        share = missing / max(1, outline.works.regions.whole(tensor).size)
        size = int(share * evaluator.problem.wire_bytes(tensor))
        return evaluator.cost.transfer_s(source, device, size)

    def _rest_s(self, position: int, home: str) -> float:
        """The seconds to gather what crosses, run the rest at home, and answer."""
        evaluator, outline = self._evaluator, self._outline
        total = sum(self.shares)
        gather = 0.0
        for share, device in zip(self.shares, self.devices, strict=True):
            if device != home:
                size = outline.live_bytes[position] * share / total
                gather = max(gather, evaluator.cost.transfer_s(device, home, int(size)))
        work = 0.0
        if position < len(outline):
            work = self._costs.work_s(position, len(outline), home)
        return gather + work + self._costs.move_s(len(outline), home, evaluator.requester)
