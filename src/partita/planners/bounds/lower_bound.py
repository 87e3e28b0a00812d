"""A latency that no plan beats: the network as a fluid that devices share without halos.

Let any plan be given, and T its latency. Why T is not below the optimum of the linear program:

* Every element that is needed (``MinimumCosts.required``) is computed on some device. Count one
  copy of it and forget the others: the shares of a layer sum to what is required of it, or more.
* A device's compute lane does one fragment at a time. A fragment takes at least, per element of a
  layer, the least seconds per element at any extent; so does a part of a sum, priced as that part
  of the whole layer. What else a fragment takes is counted once per device, at its least.
* A device other than the requester computes nothing before the first message of the input, nor
  after the last that can still arrive before T: it has T less both delays, the least over any ways.
* Of what it reads it has computed a part itself; the rest came over its links. All of them together
  carry no more than the sum of their peak rates in that time, nor than its port.
* A part of a layer that reads the model's input starts after that part of the input left the
  requester, one byte after the other on the one link.
* Gaps (:mod:`~partita.planners.bounds.gaps`) divide T into intervals, with a gap between each and
  the next. What comes before a gap is computed in the intervals before it, what comes after in
  those after it, and in the gap only what is neither; but the one device that goes on after the gap
  has its time, too. That device is not known: shares of being it sum to one. Counted of an element
  is the copy that is there before the first gap that it comes before.
* The first interval is no shorter than computing all before the first gap takes all devices, the
  last no shorter than computing all after the last gap takes the requester alone, or a message to
  it. Up to so long the delays of the input and of the answer lie in them, beside all gaps.

Not counted: halos, and the delay of messages where elements depend on parts of what is before.
A device can compute the inside of its part while edges travel (``DraftStage.edge``), compute halos
itself, or move its part by a halo per stage, so that messages go one way: for none of them is there
a least price that every plan pays.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.planners.bounds.gaps import Gap, find_gaps, least_first_s, least_last_s
from partita.planners.bounds.minimum_costs import MinimumCosts, peak_bytes_per_s
from partita.planners.bounds.shares import SAFE, Column, Row, ShareProgram
from partita.planners.pricing.evaluator import Evaluator

#: Links of fewer devices than this are looked at; beyond, the program would take too long.
_MOST_LINKED = 8


def lower_bound_s(evaluator: Evaluator) -> float:
    """The seconds that the latency of no plan falls below: over the sets of devices near enough."""
    return evaluator.remember(_lower_bound_s)


def _lower_bound_s(evaluator: Evaluator) -> float:
    floors = evaluator.remember(MinimumCosts)
    if evaluator.budget.left_s <= 0:
        return floors.shared_s() * SAFE
    gaps = find_gaps(floors)
    fixed = [there + back for there, back in zip(floors.reach_s, floors.return_s, strict=True)]
    order = sorted(range(len(fixed)), key=lambda d: fixed[d])
    best = float("inf")
    for count in range(1, len(order) + 1):
        chosen = order[:count]
        if fixed[chosen[-1]] >= best:
            break
        if count < len(order) and fixed[order[count]] <= fixed[chosen[-1]]:
            continue
        best = min(best, _Shares(floors, gaps, chosen).solve())
    return (best or floors.shared_s()) * SAFE  # one was not solved: the network as one layer


class _Shares(ShareProgram):
    """The linear program.

    Columns, each named by a tuple: per device and layer the share that it computes, per device and
    tensor the part that it receives, the intervals between gaps, per device and gap whether it is
    the one that goes on after it, per device, layer that may lie on either side of gaps, and
    interval or gap its seconds there, and the time, which is to be small.
    """

    def __init__(self, floors: MinimumCosts, gaps: Sequence[Gap], chosen: Sequence[int]) -> None:
        super().__init__(floors, chosen)
        self.gaps = gaps
        self.is_linked = len(chosen) <= _MOST_LINKED
        self.spans = {name: self._span(name) for name in self.layers}

    def _span(self, layer: str) -> tuple[int, int]:
        """The first and the last interval in which a layer may be computed."""
        first = max((n + 1 for n, gap in enumerate(self.gaps) if layer in gap.after), default=0)
        last = min((n for n, gap in enumerate(self.gaps) if layer in gap.before), default=None)
        return first, len(self.gaps) if last is None else max(first, last)

    def solve(self) -> float:
        """The least time; infinite where no shares are possible."""
        self.add_layers()
        if self.gaps:
            self._add_gaps()
        for device in self.chosen:
            delay_s = self.floors.reach_s[device] + self.floors.return_s[device]
            fixed = delay_s + self.floors.run_s[device]
            self.add({**self.compute_row(device), ("time",): -1.0}, -fixed)
            if self.gaps:
                self._add_intervals(device)
            if self.is_linked:
                self.add_readers(device)
                self._add_links(device)
            self._add_inputs(device, fixed)
        return self.minimize(("time",))

    def _add_gaps(self) -> None:
        """The time is that of all intervals and gaps; one device goes on after each gap."""
        intervals: Row = {("interval", number): 1.0 for number in range(len(self.gaps) + 1)}
        self.add({**intervals, ("time",): -1.0}, -sum(gap.delay_s for gap in self.gaps))
        for number in range(len(self.gaps)):
            self.add({("goes on", d, number): 1.0 for d in self.chosen}, 1.0)

    def _add_intervals(self, device: int) -> None:
        """What a device computes in each interval takes no longer than that; in each gap, too."""
        gaps, floors = self.gaps, self.floors
        inside: list[Row] = [{} for _ in range(len(gaps) + 1)]
        between: list[Row] = [{} for _ in gaps]
        for layer, (first, last) in self.spans.items():
            seconds: Row = {("share", device, layer): floors.layer_s[layer][device]}
            if first == last:
                inside[first] |= seconds
                continue
            parts: list[Column] = [
                ("in", device, layer, number) for number in range(first, last + 1)
            ]
            crossed = [n for n in range(first, last) if gaps[n].apart != layer]
            for part, number in zip(parts, range(first, last + 1), strict=True):
                inside[number][part] = 1.0
            for number in crossed:
                between[number]["across", device, layer, number] = 1.0
            everywhere: list[Column] = [
                *parts,
                *(("across", device, layer, number) for number in crossed),
            ]
            self.add({**seconds, **dict.fromkeys(everywhere, -1.0)}, 0.0)
        for number, row in enumerate(inside):
            idle_s = 0.0
            if number == 0:
                idle_s += min(floors.reach_s[device], least_first_s(floors, gaps))
            if number == len(gaps):
                idle_s += min(floors.return_s[device], least_last_s(floors, gaps))
            else:
                row["goes on", device, number] = -gaps[number].delay_s
            self.add({**row, ("interval", number): -1.0}, -idle_s)
        for number, row in enumerate(between):
            delay_s = gaps[number].delay_s
            self.add({**row, ("goes on", device, number): delay_s}, delay_s)

    def _add_links(self, device: int) -> None:
        """What a device receives takes time on its links, all of them together."""
        name = self.name(device)
        links = [link for link in self.evaluator.cluster.links if link.target == name]
        rate = sum(peak_bytes_per_s(link) for link in links)
        port = self.evaluator.cluster.device(name).port_bytes_per_s
        rate = rate if port is None else min(rate, port)
        if not rate:
            self.add({("received", device, t): 1.0 for t in self.tensors}, 0.0)
            return
        seconds: Row = {("received", device, t): self.size_bytes(t) / rate for t in self.tensors}
        self.add({**seconds, ("time",): -1.0}, -self.floors.return_s[device])
        for number in range(len(self.gaps) + 1) if self.gaps else ():
            row: Row = {
                ("received", device, t): self.size_bytes(t) / rate
                for t in self.tensors
                if self._interval(t) == number
            }
            if not row:
                continue
            row["interval", number] = -1.0
            delay_s = self.gaps[number].delay_s if number < len(self.gaps) else 0.0
            self.add(row, delay_s)

    def _interval(self, tensor: str) -> int | None:
        """The one interval in which a tensor is made and read; None where there is no one."""
        producer = self.graph.producer(tensor)
        first = self.spans[producer.name][0] if producer is not None else 0
        readers = [self.spans[reader.name][1] for reader in self.graph.readers(tensor)]
        if tensor in self.graph.outputs:
            readers.append(len(self.gaps))
        return first if readers and max(readers) == first else None

    def _add_inputs(self, device: int, fixed: float) -> None:
        """A share of a layer that reads the model's input waits for that share of the input."""
        for reader, wire_s in self.input_seconds(device):
            own = self.floors.layer_s[reader][device]
            self.add({("share", device, reader): own + wire_s, ("time",): -1.0}, -fixed)
