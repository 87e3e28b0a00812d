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
  carry no more than the sum of their peak rates in that time.
* A part of a layer that reads the model's input starts after that part of the input left the
  requester, one byte after the other on the one link.
* Where all that follows needs all of the one tensor before, and no layer there can be computed as
  sums of parts, everything before ends before anything after starts: the bounds of the two add up.

Not counted: halos, and the delay of messages between devices inside a segment. A device can compute
the inside of its part while edges travel (``DraftStage.edge``), or compute halos itself: for
neither is there a least price that every plan pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from partita.planners.bounds.minimum_costs import MinimumCosts, peak_bytes_per_s
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.pricing.evaluator import Evaluator
from partita.regions import Region

#: Rounding may not lift the bound above the optimum.
_SAFE = 1 - 1e-7
#: Links of fewer devices than this are looked at; beyond, the program would take too long.
_MOST_LINKED = 8


@dataclass(frozen=True)
class Segment:
    """Layers between two places where everything before must be done."""

    layers: tuple[str, ...]
    is_first: bool
    is_last: bool


def lower_bound_s(evaluator: Evaluator) -> float:
    """Seconds that the latency of no plan falls below."""
    floors = MinimumCosts(evaluator)
    total = 0.0
    for segment in _segments(evaluator.outline):
        if len(segment.layers) == 1 and not segment.is_first:
            total += floors.fluid_s(segment.layers)
        else:
            total += _segment_s(floors, segment)
    return total * _SAFE


def _segments(outline: LayerOrder) -> list[Segment]:
    """The network in pieces that cannot overlap."""
    walls = [p for p in range(1, len(outline)) if _is_wall(outline, p)]
    return [
        Segment(outline.layers(start, stop), start == 0, stop == len(outline))
        for start, stop in pairwise([0, *walls, len(outline)])
    ]


def _is_wall(outline: LayerOrder, position: int) -> bool:
    """Whether every part of what follows needs all of the one tensor that crosses, at once."""
    live = outline.live(position)
    if len(live) != 1:
        return False
    regions = outline.works.regions
    for reader in outline.graph.readers(live[0]):
        if regions.partial_form(reader) is not None:
            return False
        for tensor in reader.outputs:
            shape = outline.graph.tensors[tensor].shape
            if min(shape, default=1) < 1:
                return False
            for where in (0.0, 0.5, 1.0):
                spans = tuple((at, at + 1) for at in (int((one - 1) * where) for one in shape))
                needs = regions.walk(reader, {tensor: Region(spans)}).needs
                if needs.get(live[0]) != regions.whole(live[0]):
                    return False
    return True


def _segment_s(floors: MinimumCosts, segment: Segment) -> float:
    """The least seconds of a segment over the sets of devices that are near enough."""
    fixed = [
        (reach if segment.is_first else 0.0) + (back if segment.is_last else 0.0)
        for reach, back in zip(floors.reach_s, floors.return_s, strict=True)
    ]
    order = sorted(range(len(fixed)), key=lambda d: fixed[d])
    best = float("inf")
    for count in range(1, len(order) + 1):
        chosen = order[:count]
        if fixed[chosen[-1]] >= best:
            break
        if count < len(order) and fixed[order[count]] <= fixed[chosen[-1]]:
            continue
        best = min(best, _Shares(floors, segment, chosen).solve(fixed))
    return best


class _Shares:
    """The linear program of one segment.

    Columns: per device and layer the share that it computes, per device and tensor the part that it
    receives, and last the time, which is to be small.
    """

    def __init__(self, floors: MinimumCosts, segment: Segment, chosen: Sequence[int]) -> None:
        self.floors = floors
        self.evaluator: Evaluator = floors.evaluator
        self.graph = self.evaluator.graph
        self.segment = segment
        self.chosen = chosen
        self.place = {name: at for at, name in enumerate(segment.layers)}
        layers = [self.graph.layer(name) for name in segment.layers]
        made = [t for layer in layers for t in layer.outputs]
        inputs = [t for t in self.graph.inputs if segment.is_first]
        self.tensors = {t: at for at, t in enumerate(dict.fromkeys([*inputs, *made]))}
        self.is_linked = 1 < len(chosen) <= _MOST_LINKED
        self.time = len(chosen) * (len(layers) + len(self.tensors))
        self.rows: list[dict[int, float]] = []
        self.limits: list[float] = []

    def share(self, number: int, layer: str) -> int:
        """The column of a device's share of a layer."""
        return number * len(self.place) + self.place[layer]

    def received(self, number: int, tensor: str) -> int:
        """The column of what a device receives of a tensor."""
        first = len(self.chosen) * len(self.place)
        return first + number * len(self.tensors) + self.tensors[tensor]

    def solve(self, fixed: Sequence[float]) -> float:
        """The least time; infinite where no shares are possible."""
        for layer in self.place:
            row = {self.share(n, layer): -1.0 for n in range(len(self.chosen))}
            self._add(row, -self.floors.required[layer])
        for number, device in enumerate(self.chosen):
            run_s = self.floors.run_s[device] if self.segment.is_first else 0.0
            row = {
                self.share(number, layer): self.floors.layer_s[layer][device]
                for layer in self.place
            }
            self._add({**row, self.time: -1.0}, -(fixed[device] + run_s))
            if self.is_linked:
                self._add_readers(number)
                self._add_links(number, device)
            if self.segment.is_first:
                self._add_inputs(number, device, fixed[device] + run_s)
        return self._run()

    def _add(self, row: Mapping[int, float], limit: float) -> None:
        self.rows.append(dict(row))
        self.limits.append(limit)

    def _add_readers(self, number: int) -> None:
        """What a device reads it has computed or received; the requester has the inputs."""
        is_home = self._name(number) == self.evaluator.requester
        for tensor in self.tensors:
            if is_home and tensor in self.graph.inputs:
                continue
            producer = self.graph.producer(tensor)
            own = {self.received(number, tensor): -1.0}
            if producer is not None:
                own[self.share(number, producer.name)] = -1.0
            for reader in self.graph.readers(tensor):
                part = self.floors.needed_share(reader, tensor)
                if reader.name in self.place and part > 0:
                    self._add({self.share(number, reader.name): part, **own}, 0.0)
            if is_home and tensor in self.graph.outputs:
                self._add(own, -1.0)

    def _add_links(self, number: int, device: int) -> None:
        """What a device receives takes time on its links, all of them together."""
        name = self._name(number)
        links = [link for link in self.evaluator.cluster.links if link.target == name]
        rate = sum(peak_bytes_per_s(link) for link in links)
        if not rate:
            self._add({self.received(number, t): 1.0 for t in self.tensors}, 0.0)
            return
        seconds = {self.received(number, t): self._bytes(t) / rate for t in self.tensors}
        delay = self.floors.return_s[device] if self.segment.is_last else 0.0
        self._add({**seconds, self.time: -1.0}, -delay)

    def _add_inputs(self, number: int, device: int, fixed: float) -> None:
        """A share of a layer that reads the model's input waits for that share of the input."""
        name, home = self._name(number), self.evaluator.requester
        if name == home:
            return
        link = self.evaluator.cluster.link(home, name)
        for tensor in self.graph.inputs:
            for reader in self.graph.readers(tensor):
                if reader.name not in self.place:
                    continue
                column = self.share(number, reader.name)
                if link is None or tensor in self.evaluator.options.keep_on:
                    self._add({column: 1.0}, 0.0)
                    continue
                part = self.floors.needed_share(reader, tensor)
                wire_s = part * self._bytes(tensor) / peak_bytes_per_s(link)
                own = self.floors.layer_s[reader.name][device]
                self._add({column: own + wire_s, self.time: -1.0}, -fixed)

    def _name(self, number: int) -> str:
        return self.floors.devices[self.chosen[number]]

    def _bytes(self, tensor: str) -> int:
        """The size of a tensor, or of the least that its core makes where that is less."""
        size = self.evaluator.problem.wire_bytes(tensor)
        producer = self.graph.producer(tensor)
        if producer is None or producer.barrier:
            return size
        core = self.graph.nodes[producer.nodes[0]]
        return min(size, *(self.graph.size_bytes(name) for name in core.outputs if name))

    def _run(self) -> float:
        entries = [(r, c, v) for r, row in enumerate(self.rows) for c, v in row.items()]
        values = [entry[2] for entry in entries]
        places = ([entry[0] for entry in entries], [entry[1] for entry in entries])
        upper = coo_matrix((values, places), shape=(len(self.rows), self.time + 1))
        objective = np.zeros(self.time + 1)
        objective[self.time] = 1.0
        found = linprog(objective, A_ub=upper.tocsr(), b_ub=self.limits, method="highs")
        return float(found.fun) if found.status == 0 else float("inf")
