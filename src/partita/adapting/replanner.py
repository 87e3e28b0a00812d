"""Planning anew under measured conditions: for the leader, and for long simulated runs."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from partita.compile import Compiled, compile_plan, planned_graph
from partita.cost import CostModel, MemoryUse, rates_at, update_cost
from partita.cost.memory import together
from partita.exactness.accuracy import Judge
from partita.execution import AdaptOptions, Conditions, Report
from partita.execution.adapt import Proposed
from partita.execution.durations import Pair
from partita.graph import Graph
from partita.leader import Expected, Lost
from partita.plan import Plan, hash_plan
from partita.planners.fallback import find_beside
from partita.planners.find import find_plan
from partita.planners.options import (
    PlanOptions,
    bound_errors,
    options_of,
    restrict_devices,
    succeed,
)
from partita.planners.pricing.costs import Costs
from partita.planners.result import Result
from partita.program import Program
from partita.quantisation import QuantisationData
from partita.simulation import Method, Searched, answer_period_s, plan_key, predict

_LOG = logging.getLogger(__name__)

Find = Callable[[CostModel], Plan]
#: Compiled plans that are kept: the running one, its successor, and one to roll back to.
_KEPT = 3
#: Seconds of a search after the planner that was asked for found nothing: requests wait. Not tuned.
_LAST_BUDGET_S = 0.5
#: Requests per one in flight: enough for a pipeline to fill and settle. Not tuned.
_SIMULATED = 4


class Replanner:
    """Plans for a running session; see :class:`partita.leader.Planning`.

    Args:
        cost: What ``plan`` was made with; of links with traces the rates at second 0 count.
        find: Searches; by default the planner ``best`` as :func:`make_finder` gives it.
    """

    def __init__(self, cost: CostModel, plan: Plan, find: Find | None = None) -> None:
        self._cost = cost
        self._find = find if find is not None else make_finder(plan)
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}
        self._by_hash: dict[str, Plan] = {}
        #: Of plans whose bits are not those of the first; by their keys.
        self._graphs: dict[str, Graph] = {}
        self._compiled: dict[str, Compiled] = {}
        self._memory: dict[str, Mapping[str, MemoryUse]] = {}
        self._key, self._stood_by = self._keep(plan), False
        self._assumed = Conditions(rates_at(cost, 0.0), dict.fromkeys(cost.devices, 1.0))

    @property
    def key(self) -> str:
        """Identity of the running plan."""
        return self._key

    @property
    def stood_by(self) -> bool:
        """Whether the running plan is a fallback that took over for a loss."""
        return self._stood_by

    @property
    def plan(self) -> Plan:
        """The running plan."""
        return self._plans[self._key]

    @property
    def assumed(self) -> Conditions:
        """The conditions of the last search."""
        return self._assumed

    def propose(self, conditions: Conditions) -> Proposed:
        """The best plan found for ``conditions``, beside the running one.

        Raises:
            PlanError: There is no plan.
        """
        began_s = time.monotonic()
        model = update_cost(self._cost, conditions)
        plan = self._find(model)
        search_s = time.monotonic() - began_s
        running = self.plan
        with self._lock:
            self._assumed = conditions
        new_s, old_s = (predict_s(self._of(model, each), each) for each in (plan, running))
        return Proposed(self._keep(plan), new_s, old_s, search_s)

    def compile(self, key: str) -> Compiled:
        """The program and content of a plan; the last few are kept."""
        with self._lock:
            compiled = self._compiled.pop(key, None)
        if compiled is None:
            plan = self._plans[key]
            compiled = compile_plan(self._graph(plan), plan, self._cost.cluster)
        with self._lock:
            self._compiled[key] = compiled
            while len(self._compiled) > _KEPT:
                del self._compiled[next(iter(self._compiled))]
        return compiled

    def expect(self, key: str) -> Expected:
        """The durations of a plan's links and steps, at slowness 1."""
        cost = self._of(self._cost, self._plans[key])
        durations = cost.price(cost.layout(self._plans[key]))
        per_message = {pair: spec.per_message_s for pair, spec in durations.links.items()}
        return Expected(durations.compute_s, per_message, self._stretch(self._plans[key]))

    def held_bytes(self, programs: Sequence[Program]) -> dict[str, int]:
        """What each device holds with the programs of some plans at the same time."""
        uses: defaultdict[str, list[MemoryUse]] = defaultdict(list)
        for program in programs:
            for device, use in self._memory[program.plan_hash].items():
                uses[device].append(use)
        return {device: together(several).total for device, several in uses.items()}

    def plan_of(self, plan_hash: str) -> Plan:
        """A plan that ran, by its hash."""
        return self._by_hash[plan_hash]

    def adopt(self, key: str) -> None:
        """Set the running plan."""
        self._key, self._stood_by = key, False

    def predict(self, requests: int, in_flight: int | None = None) -> Report:
        """The run of the running plan, under the conditions that it was planned for."""
        most = self.plan.in_flight
        cost = self._of(update_cost(self._cost, self._assumed), self.plan)
        return predict(cost, self.plan, requests=requests, in_flight=min(in_flight or most, most))

    def recover(self, lost: Lost) -> Compiled:
        """Plan without what is lost; the result is the running plan from now on.

        A fallback that the plan has is that plan: it is loaded already. Where the planner finds
        nothing, for instance because it needs a link that is lost, or fails in whatever way,
        ``best`` is asked.

        Raises:
            PlanError: What is left cannot run the network.
        """
        cost = self._cost
        rest = cost.cluster.without(*lost.devices).without_links(*lost.links)
        self._cost = CostModel(
            cost.graph,
            rest,
            estimator=cost.estimator,
            profiles=cost.profiles,
            options=cost.options,
        )
        rates = {p: r for p, r in self._assumed.rates.items() if p in rest.link_map}
        factors = {n: f for n, f in self._assumed.slowness.items() if n in rest.names}
        self._assumed = Conditions(rates, factors)
        fallback = self.plan.fallback
        found = fallback or self._find_any(update_cost(self._cost, self._assumed))
        self.adopt(self._keep(found))
        self._stood_by = fallback is not None
        return self.compile(self._key)

    def _find_any(self, cost: CostModel) -> Plan:
        try:
            return self._find(cost)
        except Exception:  # requests wait: a fault of one planner must not end the run
            _LOG.debug("The planner failed; 'best' is asked.", exc_info=True)
            return make_finder(self.plan, most_s=_LAST_BUDGET_S)(cost)

    def _keep(self, plan: Plan) -> str:
        key = plan_key(plan)
        kept = self._plans.setdefault(key, plan)
        cost = self._of(self._cost, kept)
        self._by_hash[hash_plan(kept)] = kept
        self._memory[hash_plan(kept)] = cost.memory(cost.layout(kept))
        return key

    def _of(self, cost: CostModel, plan: Plan) -> CostModel:
        """The costs of the graph that a plan speaks of."""
        graph = self._graph(plan)
        return cost if graph is cost.graph else cost.of(graph)

    def _graph(self, plan: Plan) -> Graph:
        """That graph; the last few are kept."""
        with self._lock:
            key = plan_key(plan)
            graph = self._graphs.pop(key, None) or planned_graph(self._cost.graph, plan)
            self._graphs[key] = graph
            while len(self._graphs) > _KEPT:
                del self._graphs[next(iter(self._graphs))]
            return graph

    def _stretch(self, plan: Plan) -> Mapping[Pair, float]:
        """How much longer messages on shared media and ports take than alone, as predicted."""
        links = self._cost.links
        if not any(spec.is_shared for spec in links.values()):
            return {}
        cost = self._of(update_cost(self._cost, self._assumed), plan)
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


def make_finder(
    plan: Plan,
    planner: str = "best",
    most_s: float = 3.0,
    *,
    quantisation: QuantisationData | None = None,
    judge: Judge | None = None,
) -> Find:
    """A search with the options that ``plan`` was made with, less lost devices.

    It keeps the plan's fallback, and its bits, unless samples let it choose others.

    Args:
        plan: Its objective, seed, and all that :class:`partita.plan.Asked` keeps.
        planner: One of :func:`partita.planners.planner_names`.
        most_s: Seconds that a search may take.
        quantisation: What samples say of the network, for planners that choose bits: accurate
            enough is what no more errors sum up in than in the plan's bits.
        judge: Says instead what is accurate enough, by the drop that the plan was asked for.
    """
    asked = replace(options_of(plan, most_s=most_s), quantisation=quantisation, judge=judge)

    def find(cost: CostModel) -> Plan:
        options = restrict_devices(asked, cost.cluster.names)
        if quantisation is not None:
            cost = cost.of(cost.graph.base or cost.graph)
            if judge is None:
                options = bound_errors(options, quantisation.error_of(cost.graph, plan.bits))

        def search(less: Costs) -> Result:
            return find_plan(less, planner=planner, options=options)

        if plan.fallback is None:
            return succeed(plan, search(cost).plan)
        return succeed(plan, find_beside(cost, plan.fallback, search).plan)

    return find


def make_method(
    planner: str,
    *,
    options: PlanOptions | None = None,
    find: Find | None = None,
    adapt: AdaptOptions | None = None,
    search_s: float | None = None,
    name: str = "",
) -> Method:
    """A method for :func:`partita.simulation.simulate_adaptive`.

    Args:
        find: Searches in place of the planner with those options.
        adapt: When it plans again, and when it keeps the result.
        search_s: What a search is charged; None for what it takes.
        name: For tables; the planner's own by default.
    """
    options = options or PlanOptions()

    def search(cost: CostModel) -> Searched:
        began_s = time.monotonic()
        if find is not None:
            return Searched(find(cost), time.monotonic() - began_s)
        result = find_plan(cost, planner=planner, options=options)
        return Searched(result.plan, result.search_s)

    return Method(name or planner, search, search_s, adapt or AdaptOptions())


def take_every_plan(adapt: AdaptOptions | None = None) -> AdaptOptions:
    """Options of a method that never compares: it takes what its search gives."""
    return replace(adapt or AdaptOptions(), least_gain=float("-inf"), trial=0)
