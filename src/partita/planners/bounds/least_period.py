"""Seconds per request that no plan goes below under steady load: the network as a fluid.

Let any plan be given, and P its period: after ever more requests, the seconds per answer. Each
request may take a route of its own. Take the mean over requests of what the linear program counts
for one: all its rows are linear, so what holds for each request holds for the mean. Why P is not
below the optimum:

* Every element that is needed is computed on some device for each request, so the shares of a layer
  sum to what is required of it, or more (``MinimumCosts.required``).
* A device's compute lane does one fragment at a time, of all requests: the mean seconds per request
  are at most P. A fragment takes at least, per element of a layer, the least seconds per element at
  any extent, and beyond them the least that a run takes for each of its layers. For how many
  requests the device runs a layer is not known; it is no fewer than its share of the layer.
* What a device reads it has computed itself, or it came over its links, which carry at most P times
  their peak rates per request; links of one medium, and of one port, take turns, so that all of
  them together carry for as long as P. The model's input comes from the requester over its link.
* The outputs come to the requester.
* By Little's law the mean latency is P times the requests in flight, and no request's latency is
  below the least latency of any plan (:mod:`~partita.planners.bounds.lower_bound`).

Not counted: halos, delays of messages, what devices wait for each other, the sending ends of links.
"""

from __future__ import annotations

from partita.cluster import Link
from partita.planners.bounds.minimum_costs import MinimumCosts, peak_bytes_per_s
from partita.planners.bounds.shares import SAFE, Column, Row, ShareProgram
from partita.planners.pricing.evaluator import Evaluator

#: Shares of more layers on more devices than this count computing alone: with what is received the
#: program would take longer than seconds. ResNet-50 on 32 devices takes one.
_MOST_SHARES = 4000
_PERIOD: Column = ("period",)
#: What links share: its kind and its name.
_Lane = tuple[str, str]


def least_period_s(evaluator: Evaluator, least_latency_s: float) -> float:
    """The seconds per request that no plan goes below, with the options' requests in flight.

    Args:
        evaluator: Of the network and the devices that may compute.
        least_latency_s: What the latency of no plan falls below.
    """
    return max(fluid_period_s(evaluator), least_latency_s / evaluator.options.in_flight)


def fluid_period_s(evaluator: Evaluator) -> float:
    """The seconds per request that no plan goes below, however many requests are in flight."""
    return evaluator.remember(_fluid_period_s)


def _fluid_period_s(evaluator: Evaluator) -> float:
    floors = evaluator.remember(MinimumCosts)
    if evaluator.budget.left_s <= 0:
        return floors.shared_s() * SAFE
    return (_Rates(floors).solve() or floors.shared_s()) * SAFE


class _Rates(ShareProgram):
    """The linear program.

    The one column beside shares is the period, which is to be small.
    """

    def __init__(self, floors: MinimumCosts) -> None:
        super().__init__(floors, range(len(floors.devices)))

    def solve(self) -> float:
        """The least period; infinite where no shares are possible."""
        self.add_layers()
        is_linked = len(self.chosen) * len(self.layers) <= _MOST_SHARES
        turns: dict[_Lane, Row] = {}
        for device in self.chosen:
            self._add_computing(device)
            self._add_inputs(device)
            if is_linked:
                self.add_readers(device)
                self._add_received(device, turns)
        for row in turns.values():
            self.add({**row, _PERIOD: -1.0}, 0.0)
        return self.minimize(_PERIOD)

    def _add_computing(self, device: int) -> None:
        """What a device computes takes no longer than the period, runs included."""
        run_s = self.floors.layer_run_s(device)
        row: Row = {key: seconds + run_s for key, seconds in self.compute_row(device).items()}
        self.add({**row, _PERIOD: -1.0}, 0.0)

    def _add_inputs(self, device: int) -> None:
        """A device other than the requester gets what it needs of the inputs from there."""
        for reader, seconds in self.input_seconds(device):
            self.add({("share", device, reader): seconds, _PERIOD: -1.0}, 0.0)

    def _add_received(self, device: int, turns: dict[_Lane, Row]) -> None:
        """What a device receives takes time on its links, all of them together.

        Args:
            device: Its number.
            turns: The seconds on each medium and port, to which are added those of all that this
                device receives where all its links are of that one, and else those of the inputs,
                which come over the one link.
        """
        name, links = self.name(device), self.evaluator.cluster.links
        inward = [link for link in links if link.target == name]
        row: Row = {("received", device, t): float(self.size_bytes(t)) for t in self.tensors}
        if not inward:
            self.add(row, 0.0)
            return
        lanes = [_lanes(link) for link in inward]
        own = sum(peak_bytes_per_s(link) for link in inward if link.medium is None)
        together: set[_Lane] = {("medium", link.medium) for link in inward if link.medium}
        total = own + sum(max(found.get(lane, 0.0) for found in lanes) for lane in together)
        self.add({**_scale(row, total), _PERIOD: -1.0}, 0.0)
        inputs: Row = {
            ("received", device, t): row["received", device, t] for t in self.graph.inputs
        }
        for link, found in zip(inward, lanes, strict=True):
            for lane in found:
                if all(lane in other for other in lanes):
                    rate = max(other[lane] for other in lanes)
                    turns.setdefault(lane, {}).update(_scale(row, rate))
                elif link.source == self.evaluator.requester:
                    turns.setdefault(lane, {}).update(_scale(inputs, found[lane]))


def _lanes(link: Link) -> dict[_Lane, float]:
    """What a link shares with others, a medium or ports, and its most bytes/s there."""
    lanes: dict[_Lane, float] = {("port", port.name): port.bytes_per_s for port in link.ports}
    if link.medium is not None:
        lanes["medium", link.medium] = peak_bytes_per_s(link)
    return lanes


def _scale(sizes: Row, rate: float) -> Row:
    return {column: size / rate for column, size in sizes.items()}
