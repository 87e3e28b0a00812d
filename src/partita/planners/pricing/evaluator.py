"""The price of plans: one place where planners learn how good a plan is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from math import inf
from operator import mul
from typing import Any, NamedTuple, TypeVar

import msgspec

from partita.compile import Layout
from partita.errors import InfeasibleError, OverfullError, PlanError
from partita.graph.quantised import with_kernels
from partita.plan import Plan
from partita.planners.drafts.draft import Draft, DraftLowering
from partita.planners.options import PlanOptions
from partita.planners.pricing.budget import Budget
from partita.planners.pricing.constraints import Constraints, nothing_fits
from partita.planners.pricing.costs import Costs
from partita.planners.pricing.incremental import DraftPrice, make_pricer
from partita.planners.pricing.objective import IMPOSSIBLE, RankKey, Score, rate
from partita.planners.pricing.pricing_state import ImpossibleError, TooSlowError
from partita.planners.pricing.problem import Problem
from partita.planners.pricing.range_costs import RangeCosts
from partita.planners.pricing.stage_loads import StageLoads
from partita.planners.result import Estimate
from partita.quantisation import quantize
from partita.regions import LayerBits
from partita.simulation import OutOfTimeError, Until, answer_period_s, latency_s

#: Most drafts that are simulated under load to find the best of some, and how exactly: twice as
#: exact takes four times as long where replicas and rows take turns. Not tuned.
_MOST_SIMULATED, _JUDGED_CLOSE = 60, 0.005
_FULLY = Until()


T = TypeVar("T")


class _Priced(NamedTuple):
    estimate: Estimate
    rank: RankKey


class Evaluator:
    """Prices drafts and plans exactly as the simulation would, and remembers them.

    Attributes:
        problem: The network, the devices and what is wanted; its parts are attributes here too.
        loads: Seconds of single stages.
        ranges: Seconds of whole ranges of layers and of moving what crosses a cut.
        pricer: Prices drafts without programs; None where links change or are shared, or memory is
            the objective.

    Raises:
        PlanError: An option names an unknown device or tensor.
        InfeasibleError: No device may compute.
    """

    def __init__(self, cost: Costs, options: PlanOptions) -> None:
        problem = Problem(cost, options)
        self.cost = cost
        self.graph, self.cluster = problem.graph, problem.cluster
        self.requester, self.devices = problem.requester, problem.devices
        self.outline = problem.outline
        self.budget = Budget(options)
        self._use(problem)

    def _use(self, problem: Problem) -> None:
        """Price for a problem, of which nothing is known yet."""
        self.problem, self.options = problem, problem.options
        self.loads = StageLoads(problem)
        self.ranges = RangeCosts(problem)
        self.pricer = make_pricer(problem.cost, problem.lowering, problem.options)
        self._constraints = Constraints(problem)
        self._known: dict[Draft, _Priced | PlanError] = {}
        #: Limits that drafts are known to be slower than.
        self._slower: dict[Draft, float] = {}
        self._judged: dict[Draft, Score] = {}
        self._remembered: dict[Callable[[Evaluator], Any], Any] = {}

    def among(self, devices: Iterable[str]) -> Evaluator:
        """The evaluator for some of its devices; prices and budget are shared."""
        among = copy(self)
        chosen = set(devices)
        among.devices = tuple(device for device in self.devices if device in chosen)
        among._remembered = {}
        return among

    def quantised(self, bits: Mapping[str, LayerBits]) -> Evaluator:
        """The evaluator of the network with so many bits; this one without any.

        Raises:
            PlanError: The bits do not fit the network.
        """
        if not bits:
            return self
        other = Evaluator(self.quantised_cost(bits), self.options)
        other.budget = self.budget
        return other

    def quantised_cost(self, bits: Mapping[str, LayerBits]) -> Costs:
        """The costs of the network with so many bits, on the kernels that are wanted.

        Raises:
            PlanError: The bits do not fit the network.
        """
        graph = quantize(self.graph, bits)
        wants = self.options.integer_kernels
        return self.cost.of(with_kernels(graph, integer=True) if wants else graph)

    def close(self) -> None:
        """Let go of what :meth:`remember` keeps, which keeps this evaluator from being freed."""
        self._remembered.clear()

    def remember(self, make: Callable[[Evaluator], T]) -> T:
        """What ``make`` makes of the evaluator: made once."""
        if make not in self._remembered:
            self._remembered[make] = make(self)
        kept: T = self._remembered[make]
        return kept

    def estimate(self, draft: Draft) -> Estimate:
        """A draft's predicted cost.

        Raises:
            PlanError: The draft breaks a rule: no link, a tensor that must stay.
            OverfullError: A device has too little memory.
        """
        known = self._find(draft)
        if isinstance(known, PlanError):
            raise known
        return known.estimate

    def trial(self, draft: Draft, limit_s: float = inf) -> RankKey | None:
        """What a search compares of a draft; None if impossible or surely above the limit.

        Of a draft that memory is missing for it is how much, see :data:`Score`.

        Args:
            limit_s: Of the latency, where latency is the objective.
        """
        known = self._known.get(draft)
        if known is None:
            limit_s = limit_s if self.options.objective == "latency" else inf
            if self._slower.get(draft, -1.0) >= limit_s:
                return None
            try:
                known = self._known[draft] = self._noted(self._price(draft, limit_s))
            except TooSlowError:
                self.budget.evaluations += 1
                self._slower[draft] = limit_s
                return None
        return _rank(known)

    def expect(self, draft: Draft) -> None:
        """Expect trials of drafts that end like this one, which is possible."""
        pricer = self.pricer
        if pricer is not None and self.options.objective == "latency" and pricer.can_price(draft):
            pricer.expect(draft)

    def score(self, draft: Draft) -> Score:
        """The objective first, then what breaks ties; see :data:`Score` for what does not fit."""
        rank = _rank(self._find(draft))
        return IMPOSSIBLE if rank is None else rank.score

    def forget(self) -> None:
        """Forget what was priced, but not what was judged: long searches would fill the memory."""
        self._known.clear()
        self._slower.clear()
        self.cost.forget()
        self.problem.lowering = DraftLowering(self.outline)
        self.loads = StageLoads(self.problem)
        self.pricer = make_pricer(self.cost, self.problem.lowering, self.options)

    def rank(self, drafts: Iterable[Draft]) -> list[Draft]:
        """Different drafts, the best first.

        Once the time is over only those that are priced, and as many more as give one that is
        possible and fits, as long as bounds may be looked for.
        """
        ranked: list[Draft] = []
        budget, is_found, is_late = self.budget, False, False
        for draft in dict.fromkeys(drafts):
            is_wanted = draft in self._known or not ranked
            if not is_wanted and not is_late:
                is_late = budget.is_over if is_found else budget.is_long_over and budget.is_over
            if is_wanted or not is_late:
                is_found |= self.score(draft)[0] < inf
                ranked.append(draft)
        return sorted(ranked, key=self.score)

    def priced(self, limit: float) -> Iterator[Draft]:
        """The drafts priced so far whose objective is at most ``limit``, in their order."""
        for draft, known in self._known.items():
            if not isinstance(known, PlanError) and known.rank.score[0] <= limit:
                yield draft

    def latency_of(self, draft: Draft) -> float:
        """A draft's latency in seconds; infinite for impossible drafts."""
        known = self._find(draft)
        return inf if isinstance(known, PlanError) else known.estimate.latency_s

    def best(
        self,
        drafts: Iterable[Draft],
        *,
        most_judged: int = _MOST_SIMULATED,
    ) -> Draft:
        """The best of some drafts, the first among equals.

        Args:
            drafts: To choose from.
            most_judged: Most of them, the best by score first, that are judged where that takes
                more than their score.

        Raises:
            OverfullError: None of them fits the devices' memory; tells what the nearest lacks.
            InfeasibleError: None of them is possible; the message is the first one's.
        """
        drafts = list(drafts)
        known = [one for one in drafts if self._judged.get(one, IMPOSSIBLE)[0] < inf]
        if known and self._is_late():
            return min(known, key=self._judged.__getitem__)
        tried = self.rank(drafts)
        if not tried:
            raise InfeasibleError("No plan found: no draft was made.")
        found = self._find(tried[0])
        if isinstance(found, PlanError):
            raise nothing_fits(found, tried[0], self.cluster)
        return self._best_judged(tried[:most_judged])

    def _best_judged(self, tried: Sequence[Draft]) -> Draft:
        """The best of some drafts by what counts in the end.

        Args:
            tried: By their score, which is not above that: those that cannot win are passed over.
        """
        if self.options.objective != "throughput":
            return tried[0]
        best = tried[0]
        for draft in tried:
            if self.score(draft)[0] >= self.judge(best)[0]:
                break
            best = min(best, draft, key=self.judge)
        return best

    def judge(self, draft: Draft) -> Score:
        """What counts in the end: the score, for throughput with the seconds under load simulated.

        While it searches for throughput, a draft without replicas scores what it is not below: its
        busiest lane, or its latency over the requests in flight.
        """
        if self.options.objective != "throughput":
            return self.score(draft)
        judged = self._judged.get(draft)
        if judged is None:
            if self._is_late():
                return IMPOSSIBLE
            try:
                # The first that is judged is so however late it is, but no longer than it must.
                until = Until(
                    _JUDGED_CLOSE, is_over=self._is_late, is_enough=lambda: self.budget.is_over
                )
                judged = self.rate(self.evaluate(self.problem.plan(draft), until=until))
            except OutOfTimeError:
                return IMPOSSIBLE
            except PlanError:
                judged = self.score(draft)
            self._judged[draft] = judged
            self.budget.note(judged[0])
        return judged

    def judged_s(self, draft: Draft) -> float:
        """The seconds under load that a draft was judged by; infinite where it was not."""
        return self._judged.get(draft, IMPOSSIBLE)[0]

    def _is_late(self) -> bool:
        """Whether the time is over, and something was judged that is possible."""
        return self.budget.is_over and any(one < IMPOSSIBLE for one in self._judged.values())

    def rate(self, estimate: Estimate) -> Score:
        """An estimate's objective, and what breaks ties."""
        return rate(estimate, self.options.objective, self.cluster)

    def evaluate(self, plan: Plan, *, full: bool = True, until: Until = _FULLY) -> Estimate:
        """A plan's predicted cost, with as many requests in flight as memory has room for.

        Args:
            full: Whether all is wanted, or only what the objective asks for.
            until: How long it is simulated under load.

        Raises:
            PlanError: The plan breaks a rule, or the simulation was given up.
            OverfullError: A device has too little memory.
        """
        self.budget.evaluations += 1
        plan, layout = self._in_room(plan)
        objective, is_rate = self.options.objective, self.options.objective == "throughput"
        self._constraints.check_energy(layout)
        memory_bytes = self._constraints.check_memory(layout, needed=full or objective == "memory")
        program, durations = layout.program, self.cost.price(layout)
        bottleneck_s = self.cost.bottleneck_s(layout) if full or is_rate else 0
        steady_s = None
        # One at a time, requests take what their own replica takes: the mean over routes counts.
        if (plan.in_flight > 1 or program.routes) and (full or (is_rate and program.routes)):
            steady_s = answer_period_s(program, durations, until=until)
        return Estimate(
            latency_s=latency_s(program, durations),
            memory_bytes=memory_bytes,
            bottleneck_s=bottleneck_s,
            energy_joules=self.cost.energy_joules(layout) if full or objective == "energy" else 0,
            messages=len(program.streams),
            in_flight=plan.in_flight,
            steady_s=steady_s,
        )

    def _in_room(self, plan: Plan) -> tuple[Plan, Layout]:
        """A plan and its layout, with fewer requests in flight where memory asks for that."""
        layout = self.problem.layout(plan)
        while (most := self._constraints.most_in_flight(layout)) < plan.in_flight:
            plan = msgspec.structs.replace(plan, in_flight=most)
            layout = self.problem.layout(plan)
        return plan, layout

    def fewer_in_flight(self) -> Iterator[Evaluator]:
        """Yield this evaluator, then ones for half as many requests in flight, and so on to one.

        A plan may hold fewer requests than asked for, see :meth:`evaluate`; methods that look at
        memory before there is a plan find such plans by the others. The budget is shared.
        """
        yield self
        most = self.options.in_flight
        while most > 1:
            most //= 2
            fewer = copy(self)
            fewer._use(self.problem.with_in_flight(most))
            fewer.ranges = self.ranges.with_in_flight(fewer.problem)
            yield fewer

    def _find(self, draft: Draft) -> _Priced | PlanError:
        known = self._known.get(draft)
        if known is None:
            known = self._known[draft] = self._noted(self._price(draft, inf))
        return known

    def _noted(self, known: _Priced | PlanError) -> _Priced | PlanError:
        """What was found of a draft, noted where nothing else is to be judged."""
        if isinstance(known, _Priced) and self.options.objective != "throughput":
            self.budget.note(known.rank.score[0])
        return known

    def _price(self, draft: Draft, limit_s: float) -> _Priced | PlanError:
        pricer = self.pricer
        if pricer is None or not pricer.can_price(draft):
            return self._price_plan(draft)
        try:
            price = pricer.price(draft, limit_s)
        except ImpossibleError:
            return self._price_plan(draft)
        if not self._constraints.surely_allow(price):
            return self._price_plan(draft)
        self.budget.evaluations += 1
        estimate = self._estimate(price)
        return _Priced(estimate, RankKey(self.rate(estimate), price.lateness, price.messages))

    def _price_plan(self, draft: Draft) -> _Priced | PlanError:
        """What a draft's program costs."""
        try:
            plan = self.problem.plan(draft)
            until = Until(_JUDGED_CLOSE, is_enough=lambda: self.budget.is_over)
            estimate = self.evaluate(plan, full=False, until=until)
        except PlanError as error:
            return error.with_traceback(None)  # whose frames hold all that a search remembers
        return _Priced(estimate, RankKey(self.rate(estimate), 0.0, estimate.messages))

    def _estimate(self, price: DraftPrice) -> Estimate:
        return Estimate(
            latency_s=price.latency_s,
            bottleneck_s=max(*price.busy_s, price.wires_s),
            memory_bytes={},
            energy_joules=sum(map(mul, price.busy_s, self.problem.watts)),
            messages=price.messages,
            in_flight=self.options.in_flight,
        )


def _rank(known: _Priced | PlanError) -> RankKey | None:
    """What a search compares of what is known of a draft; None where it is impossible."""
    if isinstance(known, OverfullError):
        return RankKey((inf, float(sum(known.overflow_bytes.values()))), 0.0, 0)
    return None if isinstance(known, PlanError) else known.rank
