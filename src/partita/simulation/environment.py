"""Links and devices as they really are over a long simulated time, and what one request takes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from partita.cost import CostModel, MemoryUse, update_cost
from partita.execution import Conditions, Durations, Link
from partita.execution.clock import RateChange
from partita.execution.durations import Pair
from partita.plan import Plan
from partita.program import Load, Program
from partita.simulation.single_request import latency_s

#: A request is first looked at over so many times its usual latency. Not tuned: more lists changes
#: of rate that are not met, less simulates slow requests twice.
_HORIZON = 4.0


class StepFunction:
    """A value over time that holds from each change to the next.

    Args:
        first: Before the first change.
        changes: Times, increasing, and values.

    >>> course = Course(10.0, [(5.0, 20.0)])
    >>> course.at(4.0), course.at(5.0), course.mean(4.0, 6.0), course.next_change(0.0)
    (10.0, 20.0, 15.0, 5.0)
    """

    def __init__(self, first: float, changes: Sequence[RateChange] = ()) -> None:
        self.times = [time_s for time_s, _ in changes]
        self.values = [first, *(value for _, value in changes)]
        steps = zip(self.times, self.times[1:], self.values[1:], strict=False)
        self._sums = list(accumulate(((b - a) * v for a, b, v in steps), initial=0.0))

    def at(self, time_s: float) -> float:
        """The value at a time."""
        return self.values[bisect_right(self.times, time_s)]

    def mean(self, start_s: float, end_s: float) -> float:
        """The mean over an interval; the value at its start where it is empty."""
        if end_s <= start_s:
            return self.at(start_s)
        return (self._sum_to(end_s) - self._sum_to(start_s)) / (end_s - start_s)

    def _sum_to(self, time_s: float) -> float:
        """The integral from the first change on; negative before it."""
        index = bisect_right(self.times, time_s)
        if index == 0:
            return (
                self.values[0] * (time_s - self.times[0]) if self.times else self.values[0] * time_s
            )
        return self._sums[index - 1] + self.values[index] * (time_s - self.times[index - 1])

    def next_change(self, time_s: float) -> float:
        """When the value changes next after a time; infinite if never."""
        index = bisect_right(self.times, time_s)
        return self.times[index] if index < len(self.times) else float("inf")

    def between(self, start_s: float, end_s: float) -> list[RateChange]:
        """The changes after ``start_s`` and before ``end_s``, counted from ``start_s``."""
        first, last = bisect_right(self.times, start_s), bisect_left(self.times, end_s)
        return [(self.times[k] - start_s, self.values[k + 1]) for k in range(first, last)]


@dataclass
class PricedPlan:
    """A plan with what its steps take, and the latencies that were found for it.

    Attributes:
        cost: Of the graph that it speaks of.
        used: The links that it sends over.
        memory: Of each device that it uses.
        known: Latency by the slowness of devices and the constant rates of the used links.
        durations: By the slowness of devices.
    """

    plan: Plan
    cost: CostModel
    program: Program
    used: tuple[Pair, ...]
    memory: Mapping[str, MemoryUse]
    known: dict[tuple[float, ...], float] = field(default_factory=dict)
    durations: dict[tuple[float, ...], Durations] = field(default_factory=dict)


class Environment:
    """What is true, whatever is believed.

    Args:
        cost: Its links' traces count; its devices at slowness 1.
        slowness: Per device, changes of its slowness as (seconds, factor); 1 before the first.
    """

    def __init__(
        self, cost: CostModel, slowness: Mapping[str, Sequence[RateChange]] | None = None
    ) -> None:
        self.cost = cost
        self._specs = cost.links
        self.rates = {
            pair: StepFunction(spec.bandwidth_bytes_per_s, spec.trace)
            for pair, spec in cost.links.items()
        }
        given = slowness or {}
        self.slowness = {name: StepFunction(1.0, given.get(name, ())) for name in cost.devices}

    def price(self, plan: Plan) -> PricedPlan:
        """A plan ready for :meth:`latency_s`."""
        cost = self.cost.of_plan(plan)
        layout = cost.layout(plan)
        program = layout.program
        used = dict.fromkeys((stream.source, stream.target) for stream in program.streams)
        return PricedPlan(plan, cost, program, tuple(used), cost.memory(layout))

    def latency_s(self, priced: PricedPlan, start_s: float) -> float:
        """What a request takes that is fed at ``start_s``, rates changing on its way."""
        factors = tuple(course.at(start_s) for course in self.slowness.values())
        rates = {pair: self.rates[pair].at(start_s) for pair in priced.used}
        usual_s = self.constant_s(priced, factors, rates)
        change_s = min((self.rates[p].next_change(start_s) for p in priced.used), default=1e300)
        if change_s >= start_s + usual_s:
            return usual_s
        durations = self._durations(priced, factors)
        horizon_s = _HORIZON * usual_s
        while True:
            links = {
                pair: replace(
                    self._specs[pair],
                    bandwidth_bytes_per_s=rates[pair],
                    trace=tuple(self.rates[pair].between(start_s, start_s + horizon_s)),
                )
                for pair in priced.used
            }
            took_s = latency_s(priced.program, replace(durations, links=links))
            if took_s <= horizon_s:
                return took_s
            horizon_s = _HORIZON * took_s

    def constant_s(
        self, priced: PricedPlan, factors: tuple[float, ...], rates: Mapping[Pair, float]
    ) -> float:
        """What a request takes at constant rates.

        Args:
            factors: Slowness of each device, in the cost model's order.
            rates: Bytes per second; links that the plan does not use may be absent.
        """
        key = (*factors, *(rates[pair] for pair in priced.used))
        took_s = priced.known.get(key)
        if took_s is None:
            links: dict[Pair, Link] = {
                pair: self._specs[pair].at_rate(rates[pair]) for pair in priced.used
            }
            durations = replace(self._durations(priced, factors), links=links)
            took_s = priced.known[key] = latency_s(priced.program, durations)
        return took_s

    def _durations(self, priced: PricedPlan, factors: tuple[float, ...]) -> Durations:
        durations = priced.durations.get(factors)
        if durations is None:
            slowness = dict(zip(self.slowness, factors, strict=True))
            cost = update_cost(priced.cost, Conditions({}, slowness))
            durations = priced.durations[factors] = cost.price(cost.layout(priced.plan))
        return durations

    def load_s(self, priced: PricedPlan) -> float:
        """What the slowest device takes to load its part of a plan, at slowness 1."""
        durations = self._durations(priced, (1.0,) * len(self.slowness))
        return max(
            sum(durations.load_s.get(step.id, 0.0) for step in part.steps if isinstance(step, Load))
            for part in priced.program.devices
        )
