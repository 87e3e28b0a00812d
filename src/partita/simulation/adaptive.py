"""A long run on a virtual clock whose plan changes with its links, as under a real leader."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from partita.cost import CostModel, rates_at, update_cost
from partita.cost.memory import together
from partita.errors import PlanError
from partita.execution import AdaptOptions, Change, Conditions, Policy
from partita.execution import clock as link_clock
from partita.execution.adapt import (
    Answered,
    Event,
    Failed,
    Measured,
    ProbeLink,
    Proposed,
    Replan,
    Switched,
)
from partita.plan import Plan
from partita.simulation.environment import Environment, PricedPlan


@dataclass(frozen=True)
class Searched:
    """What a search gives: a plan, and the seconds that it took."""

    plan: Plan
    search_s: float = 0.0


Search = Callable[[CostModel], Searched]


@dataclass(frozen=True)
class Method:
    """A way to plan, and when it plans again.

    Attributes:
        search: Makes a plan for constant rates as they are measured.
        search_s: Seconds that a search is charged: so long the old plan goes on. None charges what
            the search says it took.
        options: When a search is made and when its plan is taken. A published method that never
            compares has ``least_gain=-inf`` and ``trial=0``; one that plans all the time has
            ``every_s``; one that never does has an infinite ``threshold``.
        steer: Makes the plan of the next request from what is measured, free of charge, while no
            search is asked; None where requests follow the plan that was searched.
    """

    name: str
    search: Search
    search_s: float | None = None
    options: AdaptOptions = field(default_factory=AdaptOptions)
    steer: Callable[[CostModel], Plan] | None = None


@dataclass(frozen=True)
class AdaptiveRun:
    """What became of each request, in order.

    Attributes:
        starts_s: When each input was there, in seconds since the traces began.
        latencies_s: From then to its answer.
        epochs: Number of the plan that it ran under, counted from 0; a switch counts one up.
        plans: Per epoch; what ``steer`` makes is not listed.
    """

    method: str
    starts_s: tuple[float, ...]
    latencies_s: tuple[float, ...]
    epochs: tuple[int, ...]
    plans: tuple[Plan, ...]
    changes: tuple[Change, ...]

    @property
    def mean_s(self) -> float:
        """Mean latency of all requests."""
        return sum(self.latencies_s) / len(self.latencies_s)

    def mean_between(self, start_s: float, end_s: float) -> float:
        """The mean latency of the requests that came in an interval; nan where none did."""
        pairs = zip(self.starts_s, self.latencies_s, strict=True)
        values = [latency for time_s, latency in pairs if start_s <= time_s < end_s]
        return sum(values) / len(values) if values else math.nan


def simulate_adaptive(
    cost: CostModel,
    method: Method,
    *,
    duration_s: float,
    interval_s: float = 0.0,
    plan: Plan | None = None,
    slowness: Mapping[str, Sequence[link_clock.RateChange]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> AdaptiveRun:
    """A run of requests one at a time, on links that follow their traces.

    The same policy as the leader's decides on what the run itself measures: of a link that carried
    something, its mean rate during the request; of others, their rate when they are probed. Plans
    change between requests. A new plan is loaded beside the old one, which goes on meanwhile; where
    a device has no memory for both, requests wait for it. Weights are taken to lie on all devices.

    Args:
        cost: Links with their traces, counted from the run's start; the last rate of a trace holds.
        duration_s: Inputs come for so long.
        interval_s: Seconds from one input to the next; an input whose predecessor has no answer yet
            waits, and that counts as latency. 0 has each input come with the answer before it.
        plan: What runs first; by default what the method finds for the rates at second 0.
        slowness: Per device, changes of its slowness as (seconds, factor).
        progress: Called with the seconds of each input, before it is answered.

    Raises:
        PlanError: The first search finds no plan.
        ValueError: The duration is not above 0, or the interval below 0.
    """
    if not duration_s > 0 or interval_s < 0:
        raise ValueError(
            f"duration {duration_s} s must be above 0, interval {interval_s} s not below"
        )
    run = _Run(Environment(cost, slowness), method, plan)
    arrival_s, count = 0.0, 0
    while arrival_s < duration_s:
        if progress is not None:
            progress(arrival_s)
        answer_s = run.answer(arrival_s)
        count += 1
        arrival_s = count * interval_s if interval_s else answer_s
    return run.finish()


class _Run:
    """The virtual clock, the policy, and what it has asked for."""

    def __init__(self, world: Environment, method: Method, plan: Plan | None) -> None:
        self._world = world
        self._method = method
        belief = Conditions(rates_at(world.cost, 0.0), dict.fromkeys(world.slowness, 1.0))
        first = plan if plan is not None else method.search(update_cost(world.cost, belief)).plan
        self._priced: dict[str, PricedPlan] = {}
        key = self._keep(first)
        self._policy = Policy(belief, key, method.options)
        self._running = self._priced[key]
        self._plans = [first]
        self._due: tuple[float, Event, str] | None = None
        self._free_s = 0.0
        self._rows: list[tuple[float, float, int]] = []

    def answer(self, arrival_s: float) -> float:
        """Run one request and return when it was answered."""
        start_s = max(arrival_s, self._free_s)
        self._catch_up(start_s)
        start_s = max(start_s, self._free_s)
        priced = self._steered()
        end_s = start_s + self._world.latency_s(priced, start_s)
        self._free_s = end_s
        epoch = len(self._plans) - 1
        self._rows.append((arrival_s, end_s - arrival_s, epoch))
        rates = {p: self._world.rates[p].mean(start_s, end_s) for p in priced.used}
        devices = [part.device for part in priced.program.devices]
        factors = {name: self._world.slowness[name].at(start_s) for name in devices}
        self._tell(end_s, Measured(rates, factors))
        self._tell(end_s, Answered(epoch, end_s - start_s, end_s))
        return end_s

    def finish(self) -> AdaptiveRun:
        """What was written down."""
        starts, latencies, epochs = zip(*self._rows, strict=True)
        changes = tuple(self._policy.changes)
        plans = tuple(self._plans)
        return AdaptiveRun(self._method.name, starts, latencies, epochs, plans, changes)

    def _steered(self) -> PricedPlan:
        steer = self._method.steer
        if steer is None:
            return self._running
        plan = steer(update_cost(self._world.cost, self._policy.current))
        return self._priced[self._keep(plan)]

    def _keep(self, plan: Plan) -> str:
        key = plan_key(plan)
        if key not in self._priced:
            self._priced[key] = self._world.price(plan)
        return key

    def _catch_up(self, now_s: float) -> None:
        """Let searches and loading that are done by now take effect."""
        while self._due is not None and self._due[0] <= now_s:
            _, event, key = self._due
            self._due = None
            if isinstance(event, Switched):
                self._running = self._priced[key]
                self._plans.append(self._running.plan)
            self._tell(now_s, event)

    def _tell(self, now_s: float, event: Event) -> None:
        for decision in self._policy.handle(now_s, event):
            if isinstance(decision, ProbeLink):
                rate = self._world.rates[decision.pair].at(now_s)
                self._tell(now_s, Measured({decision.pair: rate}))
            elif isinstance(decision, Replan):
                self._search(now_s, decision.conditions)
            else:
                self._load(now_s, decision.key)

    def _search(self, now_s: float, belief: Conditions) -> None:
        try:
            searched = self._method.search(update_cost(self._world.cost, belief))
        except PlanError as error:
            self._due = (now_s, Failed(error.message), "")
            return
        key = self._keep(searched.plan)
        charged_s = self._method.search_s
        search_s = searched.search_s if charged_s is None else charged_s
        predicted_s, present_s = (
            self._world.constant_s(priced, tuple(belief.slowness.values()), belief.rates)
            for priced in (self._priced[key], self._running)
        )
        event = Proposed(key, predicted_s, present_s, search_s)
        self._due = (now_s + search_s, event, key)

    def _load(self, now_s: float, key: str) -> None:
        priced = self._priced[key]
        ready_s = now_s + self._world.load_s(priced)
        if not self._fits(priced):
            self._free_s = max(self._free_s, ready_s)
        self._due = (ready_s, Switched(len(self._plans)), key)

    def _fits(self, new: PricedPlan) -> bool:
        """Whether all devices have memory for a plan beside the one that runs."""
        cluster, running = self._world.cost.cluster, self._running.memory
        used = {
            name: together((use, *([running[name]] if name in running else ()))).total
            for name, use in new.memory.items()
        }
        return not cluster.overflow_bytes(used, swap=new.plan.may_swap)


def plan_key(plan: Plan) -> str:
    """What identifies a decision, whoever made it.

    Args:
        plan: Its stages, wire formats, bits and kernels count, not its planner or seed.
    """
    bits = sorted(plan.bits.items())
    parts = (plan.stages, sorted(plan.wires.items()), plan.in_flight, bits, plan.integer_kernels)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
