"""Linear seconds of fused blocks of layers that devices divide by rows in fixed shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partita.planners.drafts.draft import share_cuts
from partita.planners.drafts.least_chains import least_chains
from partita.planners.published.linear_view import LinearView, last_rows, layer_work
from partita.regions import Interval, Region

#: Blocks may end at no more places than this: more cost planning time, fewer miss ends. Not tuned.
MOST_PLACES = 32
_NEVER = float("inf")


class FusedBlocks:
    """Prices ranges of layers, each divided by rows, halo recomputed, as a straight line would.

    A block takes as long as its slowest device: what the device must receive, over the bandwidth,
    and then the work of its part, over its capability. Blocks follow one another.

    Args:
        shares: Of each device of the view, in any unit.
    """

    def __init__(self, view: LinearView, shares: Sequence[float]) -> None:
        self.view = view
        self.shares = tuple(shares)
        self.outline = view.outline
        self.places = find_places(view)
        self._cuts: dict[str, tuple[int, ...]] = {}
        self._producers = {
            tensor: position
            for position, name in enumerate(self.outline.order)
            for tensor in self.outline.graph.layer(name).outputs
        }
        self._sweeps: dict[int, dict[int, float]] = {}

    def block_s(self, start: int, stop: int) -> float:
        """The seconds of layers ``start`` to ``stop`` as one step; infinite if none."""
        outline, view = self.outline, self.view
        place = outline.pins.get(start)
        if place is not None or outline.kinds[start] != "rows":
            if stop != start + 1:
                return _NEVER
            work = view.work(start, stop)
            if place is not None:
                return view.compute_s(place, work) if place in view.capability else 0.0
            share = max(self.shares) / sum(self.shares) if outline.kinds[start] == "reduce" else 1.0
            return max(view.compute_s(device, work * share) for device in view.devices)
        if stop not in self._sweeps:
            self._sweeps[stop] = self._sweep(stop)
        return self._sweeps[stop].get(start, _NEVER)

    def _sweep(self, stop: int) -> dict[int, float]:
        """The seconds of every block that ends at ``stop``, by where it starts."""
        seconds: dict[int, float] = {}
        for number in range(len(self.view.devices)):
            for start, part_s in self._part(stop, number):
                seconds[start] = max(seconds.get(start, 0.0), part_s)
        return seconds

    def _part(self, stop: int, number: int) -> Iterator[tuple[int, float]]:
        """Yield where blocks that end at ``stop`` start, and the seconds of one device's part."""
        outline, device = self.outline, self.view.devices[number]
        ends = set(outline.live(stop))
        wanted: dict[str, Region] = {}
        work = 0.0
        position = stop - 1
        while position >= 0 and outline.kinds[position] == "rows" and position not in outline.pins:
            layer = outline.graph.layer(outline.order[position])
            outs = {}
            for tensor in layer.outputs:
                boxes = [wanted.pop(tensor, None), self._own(tensor, number, ends)]
                kept = [box for box in boxes if box is not None and not box.is_empty]
                if kept:
                    outs[tensor] = kept[0] if len(kept) == 1 else kept[0].hull(kept[1])
            if outs:
                tensor, box = next(iter(outs.items()))
                part = box.size / max(1, outline.works.regions.whole(tensor).size)
                work += part * layer_work(outline, position, macs=self.view.counts_macs)
                for tensor, box in outline.works.regions.walk(layer, outs).needs.items():
                    wanted[tensor] = wanted[tensor].hull(box) if tensor in wanted else box
            if position in self.places:
                received = sum(self._receive_s(t, box, number) for t, box in wanted.items())
                yield position, self.view.compute_s(device, work) + received
            position -= 1

    def _own(self, tensor: str, number: int, ends: set[str]) -> Region | None:
        """The rows that a device makes of a tensor that leaves the block."""
        axis = self.outline.axes.axis(tensor)
        if tensor not in ends or axis is None:
            return None
        return self.outline.works.regions.whole(tensor).with_axis(axis, self._rows(tensor, number))

    def _rows(self, tensor: str, number: int) -> Interval:
        cuts = self._cuts.get(tensor)
        if cuts is None:
            axes = self.outline.axes
            unit = axes.unit(tensor)
            plain = share_cuts(self.shares, axes.rows(tensor))
            axis = axes.axis(tensor)
            height = 0 if axis is None else self.outline.graph.tensors[tensor].shape[axis]
            cuts = tuple(height if cut == plain[-1] else cut * unit for cut in plain)
            self._cuts[tensor] = cuts
        return cuts[number], cuts[number + 1]

    def _receive_s(self, tensor: str, box: Region, number: int) -> float:
        """The seconds to get what a device needs of a tensor and does not hold."""
        view, device = self.view, self.view.devices[number]
        size = view.sizes.get(tensor, 0) / max(1, self.outline.works.regions.whole(tensor).size)
        made_by = self._producers.get(tensor)
        axis = self.outline.axes.axis(tensor)
        if made_by is None:
            return view.transfer_s(view.requester, device, size * box.size)
        if made_by in self.outline.pins:
            return view.transfer_s(self.outline.pins[made_by], device, size * box.size)
        if axis is None:
            return 0.0
        start, stop = box.bounds[axis]
        row_bytes = size * box.size / max(1, stop - start)
        seconds = 0.0
        for other, source in enumerate(view.devices):
            first, end = self._rows(tensor, other)
            missing = min(stop, end) - max(start, first)
            if other != number and missing > 0:
                seconds += view.transfer_s(source, device, missing * row_bytes)
        return seconds

    def rest_s(self, position: int, tail_device: str) -> float:
        """The seconds to gather what crosses, run the rest, and answer."""
        view = self.view
        sent = view.crossing(position)
        parts = [share / sum(self.shares) for share in self.shares]
        gather_s, answer_s = (
            max(
                view.transfer_s(device, target, size * part)
                for device, part in zip(view.devices, parts, strict=True)
            )
            for target, size in ((tail_device, sent.gathered), (view.requester, sent.answered))
        )
        work_s = view.compute_s(tail_device, view.work(position, len(self.outline)))
        late_s = view.transfer_s(tail_device, view.requester, sent.late)
        return max(answer_s, gather_s + work_s + late_s)

    def best_ends(
        self, tail_device: str, *, until: int | None = None
    ) -> tuple[tuple[int, ...], float]:
        """Where blocks should end for the least sum, and that sum in seconds.

        Every set of places is considered, by dynamic programming: the sum is of one term per block.

        Args:
            tail_device: The device that runs what comes after the last block.
            until: Where the last block must end; anywhere if None.

        Returns:
            The ends, in order; none where nothing can be divided.
        """
        chains = least_chains(self.places, self.block_s)
        ends = {p: chain.cost + self.rest_s(p, tail_device) for p, chain in chains.items()}
        if until is not None:
            ends = {p: time_s for p, time_s in ends.items() if p == until}
        if not ends:
            return (), self.rest_s(0, tail_device)
        last = min(ends, key=lambda p: (ends[p], p))
        return chains[last].ends, ends[last]


def find_places(view: LinearView) -> tuple[int, ...]:
    """Where blocks may start and end, up to the last layer that has rows.

    Borders of kinds always; within runs of layers with rows all places where they are few, else
    those that the fewest tensors and bytes cross.
    """
    outline = view.outline
    inner = {p for start, stop in outline.row_runs() for p in range(start + 1, stop)}
    borders = set(range(last_rows(outline) + 1)) - inner
    ranked = outline.least_crossed(inner)
    return tuple(sorted(borders | set(ranked[: max(1, MOST_PLACES - len(borders))])))
