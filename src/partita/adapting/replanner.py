"""Planning anew under measured conditions: for the leader, and for long simulated runs."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from partita.adapting.finder import Find, make_finder
from partita.adapting.hand_over import plan_without
from partita.adapting.known_plans import KnownPlans
from partita.adapting.strangers import admit_stranger
from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan, planned_graph
from partita.cost import CostModel, MemoryUse, cost_of_rest, rates_at, update_cost
from partita.cost.memory import together
from partita.execution import Conditions, Report
from partita.execution.adapt import Proposed
from partita.execution.durations import Pair
from partita.graph import Graph
from partita.leader import Expected, Lost
from partita.leader.bench import WorkerBench
from partita.leader.losses import LostKey
from partita.plan import Plan
from partita.program import Program
from partita.recent import Recent
from partita.simulation import answer_period_s, plan_key, predict
from partita.worker.messages import Info

_LOG = logging.getLogger(__name__)

#: Compiled plans that are kept: the running one, its successor, and one to roll back to.
_KEPT = 3
#: Seconds of a search after the planner that was asked for found nothing: requests wait. Not tuned.
_LAST_BUDGET_S = 0.5
#: Requests per one in flight: enough for a pipeline to fill and settle. Not tuned.
_SIMULATED = 4
#: Plans that stand by, each with its content: one for each loss on as many devices. Not tuned.
_MOST_SPARE = 16


@dataclass(frozen=True)
class _World:
    """What a plan may use.

    Attributes:
        cost: Of the devices and links that are not lost.
        assumed: The conditions of the last search.
    """

    lost: Lost
    cost: CostModel
    assumed: Conditions


@dataclass(frozen=True)
class _Spare:
    """A plan that stands by, compiled."""

    plan: Plan
    compiled: Compiled


class Replanner:
    """Plans for a running session; see :class:`partita.leader.Planning`.

    Args:
        cost: What ``plan`` was made with; of links with traces the rates at second 0 count.
        find: Searches; by default the planner ``best`` as :func:`make_finder` gives it.
    """

    def __init__(self, cost: CostModel, plan: Plan, find: Find | None = None) -> None:
        self._full = cost
        assumed = Conditions(rates_at(cost, 0.0), dict.fromkeys(cost.devices, 1.0))
        self._world = _World(Lost(), cost, assumed)
        self._find = find if find is not None else make_finder(plan)
        self._lock = threading.Lock()
        self._plans = KnownPlans()
        #: Of plans whose bits are not those of the first; by their keys.
        self._graphs = Recent[str, Graph](_KEPT)
        self._compiled = Recent[str, Compiled](_KEPT)
        #: By what is lost: what takes over then.
        self._spares = Recent[LostKey, _Spare](_MOST_SPARE)
        #: What ran before more was lost, by the hash of the cluster that it was made for.
        self._left = Recent[str, Plan](_MOST_SPARE)
        self._key, self._stood_by = plan_key(plan), False
        self._keep(plan)

    @property
    def key(self) -> str:
        """Identity of the running plan."""
        return self._key

    @property
    def stood_by(self) -> bool:
        """Whether the running plan took over for a loss, and was chosen among no others for it."""
        return self._stood_by

    @property
    def plan(self) -> Plan:
        """The running plan."""
        return self._plans[self._key]

    @property
    def assumed(self) -> Conditions:
        """The conditions of the last search."""
        return self._world.assumed

    @property
    def cluster(self) -> Cluster:
        """All devices that may take part, there or not, with strangers that have come."""
        return self._full.cluster

    @property
    def roster(self) -> tuple[str, ...]:
        """Their names."""
        return self.cluster.names

    def propose(self, conditions: Conditions) -> Proposed:
        """The best plan found for ``conditions``, beside the running one.

        Where what was lost is there again, the plan that ran before is looked at first.

        Raises:
            PlanError: There is no plan.
        """
        began_s = time.monotonic()
        world = self._world
        model = update_cost(world.cost, conditions)
        old_s = self._predict_s(model, self.plan)
        plan = self._left.pop(world.cost.cluster.hash, None)
        if plan is None or self._predict_s(model, plan) >= old_s:
            plan = self._find(model)
        search_s = time.monotonic() - began_s
        with self._lock:
            self._world = replace(self._world, assumed=conditions)
        return Proposed(self._keep(plan), self._predict_s(model, plan), old_s, search_s)

    def compile(self, key: str) -> Compiled:
        """The program and content of a plan; the last few are kept."""
        with self._lock:
            compiled = self._compiled.pop(key, None)
        if compiled is None:
            plan = self._plans[key]
            compiled = compile_plan(self._graph(plan), plan, self._world.cost.cluster)
        self._hold(key, compiled)
        return compiled

    def _hold(self, key: str, compiled: Compiled) -> None:
        with self._lock:
            self._compiled[key] = compiled

    def expect(self, key: str) -> Expected:
        """The durations of a plan's links and steps, at slowness 1."""
        cost = self._of(self._world.cost, self._plans[key])
        durations = cost.price(cost.layout(self._plans[key]))
        per_message = {pair: spec.per_message_s for pair, spec in durations.links.items()}
        return Expected(durations.compute_s, per_message, self._stretch(self._plans[key]))

    def held_bytes(self, programs: Sequence[Program]) -> dict[str, int]:
        """What each device holds with the programs of some plans at the same time."""
        uses: defaultdict[str, list[MemoryUse]] = defaultdict(list)
        for program in programs:
            for device, use in self._plans.memory(program.plan_hash).items():
                uses[device].append(use)
        return {device: together(several).total for device, several in uses.items()}

    def plan_of(self, plan_hash: str) -> Plan:
        """A plan that ran, by its hash.

        Raises:
            KeyError: It never did, or many plans ago.
        """
        return self._plans.find(plan_hash)

    def plans_of(self, plan_hashes: Iterable[str]) -> list[Plan]:
        """The plans with some hashes, in order, less those that are forgotten."""
        return self._plans.find_all(plan_hashes)

    def key_of(self, plan_hash: str) -> str:
        """Identity of a plan that ran or was proposed, by its hash."""
        return plan_key(self._plans.find(plan_hash))

    def adopt(self, key: str) -> None:
        """Set the running plan."""
        self._key, self._stood_by = key, False

    def predict(self, requests: int, in_flight: int | None = None) -> Report:
        """The run of the running plan, under the conditions that it was planned for."""
        most, world = self.plan.in_flight, self._world
        cost = self._of(update_cost(world.cost, world.assumed), self.plan)
        return predict(cost, self.plan, requests=requests, in_flight=min(in_flight or most, most))

    def may_join(self, device: str) -> bool:
        """Whether a device is of the roster, or strangers may be."""
        return device in self.roster or self._full.cluster.strangers is not None

    def admit(
        self, info: Info, bench: Callable[[], WorkerBench], check: Callable[..., None]
    ) -> None:
        """Take a stranger into the roster; see :meth:`partita.leader.Planning.admit`."""
        grown = admit_stranger(self._full, info, bench, check)
        with self._lock:
            self._full = grown

    def set_lost(self, lost: Lost) -> None:
        """Let later searches do without ``lost``, and with all else."""
        with self._lock:
            self._world = self._without(lost)

    def stand_by(self, plan_hash: str, lost: Lost, *, search: bool) -> Compiled:
        """What takes over from a plan when ``lost`` is all that is lost; kept for then.

        Args:
            plan_hash: Of a plan that ran or was proposed.
            search: Whether to look for a better plan than that whose lost shares are with their
                neighbours; where that one is not sound, it is done in any case.

        Raises:
            PlanError: What is left cannot run the network.
        """
        world = self._without(lost)
        model = update_cost(world.cost, world.assumed)
        held, running = self._spares.get(lost.key), self._plans.find(plan_hash)
        plan = held.plan if held else plan_without(self._of(model, running), running, lost.devices)
        if search or plan is None:
            found = self._find(model)
            if plan is None or self._predict_s(model, found) < self._predict_s(model, plan):
                plan = found
        plan = self._plans[self._keep(plan, model)]
        if held is None or plan is not held.plan:
            held = _Spare(plan, compile_plan(self._graph(plan), plan, model.cluster))
        with self._lock:
            self._spares[lost.key] = held
        return held.compiled

    def recover(self, lost: Lost) -> Compiled:
        """Plan without what is lost; the result is the running plan from now on.

        A fallback that the plan has is that plan: it is loaded already. Else it is what stands by,
        for the loss of a link what does for that of one of its ends. The running plan itself runs
        again where it was made for just what is there, as the requester was lost and is back.
        Where nothing does, and the planner finds nothing, for instance because it needs a link
        that is lost, or fails in whatever way, ``best`` is asked.

        Raises:
            PlanError: What is left cannot run the network.
        """
        world, fallback = self._without(lost), self.plan.fallback
        if self.plan.cluster.hash == world.cost.cluster.hash:
            self.set_lost(lost)
            return self.compile(self._key)
        model = update_cost(world.cost, world.assumed)
        exact = self._spares.get(lost.key)
        spare = None if fallback else exact or self._find_beside(lost, model)
        plan = fallback or (spare and spare.plan) or self._find_any(model)
        self.take_over(self._keep(plan), lost)
        self._stood_by = fallback is not None or (spare is not None and spare is not exact)
        if spare:
            self._hold(self._key, spare.compiled)
        return self.compile(self._key)

    def _find_beside(self, lost: Lost, model: CostModel) -> _Spare | None:
        """For a lost link, what stands by for one of its ends, which is there: soon, not good."""
        known = self._world.lost
        links = set(lost.links) - set(known.links)
        if len(links) != 1 or lost.devices != known.devices:
            return None
        ends = [self._spares.get((known | Lost((end,))).key) for pair in links for end in pair]
        spares = [spare for spare in ends if spare is not None]
        return min(spares, key=lambda each: self._predict_s(model, each.plan), default=None)

    def take_over(self, key: str, lost: Lost) -> None:
        """Set the running plan, and what later searches do without."""
        with self._lock:
            self._left[self.plan.cluster.hash] = self.plan
            self._world = self._without(lost)
            still = {k: spare for k, spare in self._spares.items() if k > lost.key}
            self._spares = Recent(_MOST_SPARE, still)
        self.adopt(key)

    def _without(self, lost: Lost) -> _World:
        """What there is without ``lost``, under the conditions that are known."""
        rest = self._full.cluster.without(*lost.devices).without_links(*lost.links)
        known, usual = self._world.assumed, rates_at(self._full, 0.0)
        rates = {pair: known.rates.get(pair, usual[pair]) for pair in rest.link_map}
        factors = {name: known.slowness.get(name, 1.0) for name in rest.names}
        return _World(lost, cost_of_rest(self._full, rest), Conditions(rates, factors))

    def _find_any(self, cost: CostModel) -> Plan:
        try:
            return self._find(cost)
        except Exception:  # requests wait: a fault of one planner must not end the run
            _LOG.debug("The planner failed; 'best' is asked.", exc_info=True)
            return make_finder(self.plan, most_s=_LAST_BUDGET_S)(cost)

    def _predict_s(self, model: CostModel, plan: Plan) -> float:
        return predict_s(self._of(model, plan), plan)

    def _keep(self, plan: Plan, model: CostModel | None = None) -> str:
        key = plan_key(plan)
        kept = self._plans.get(key, plan)
        cost = self._of(model or self._world.cost, kept)
        self._plans.add(key, kept, cost.memory(cost.layout(kept)))
        self._plans.touch(self._key)
        return key

    def _of(self, cost: CostModel, plan: Plan) -> CostModel:
        """The costs of the graph that a plan speaks of."""
        graph = self._graph(plan)
        return cost if graph is cost.graph else cost.of(graph)

    def _graph(self, plan: Plan) -> Graph:
        """That graph; the last few are kept."""
        with self._lock:
            key = plan_key(plan)
            graph = self._graphs.pop(key, None) or planned_graph(self._full.graph, plan)
            self._graphs[key] = graph
            return graph

    def _stretch(self, plan: Plan) -> Mapping[Pair, float]:
        """How much longer messages on shared media and ports take than alone, as predicted."""
        world = self._world
        links = world.cost.links
        if not any(spec.is_shared for spec in links.values()):
            return {}
        cost = self._of(update_cost(world.cost, world.assumed), plan)
        report = predict(cost, plan, requests=_SIMULATED * plan.in_flight)
        alone: dict[Pair, float] = {}
        for stream in cost.layout(plan).program.streams:
            pair = (stream.source, stream.target)
            spec = cost.links[pair]
            seconds = spec.per_message_s + stream.wire_bytes / spec.bandwidth_bytes_per_s
            alone[pair] = alone.get(pair, 0.0) + seconds
        requests = len(report.latencies_s)
        busy = {(use.source, use.target): (use.busy_s or 0.0) / requests for use in report.links}
        return {
            pair: max(1.0, busy[pair] / seconds)
            for pair, seconds in alone.items()
            if links[pair].is_shared and seconds > 0
        }


def predict_s(cost: CostModel, plan: Plan) -> float:
    """The seconds per answer: the latency, or with requests in flight the period under load.

    Replicas pass on turns where they must, as they would in the run.
    """
    if plan.in_flight == 1:
        return predict(cost, plan, keep_spans=False).latencies_s[0]
    layout = cost.layout(plan)
    return answer_period_s(layout.program, cost.price(layout))
