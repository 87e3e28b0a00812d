"""The price of plans: one place where planners learn how good a plan is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import inf
from operator import le, mul
from typing import NamedTuple

from partita.compile import Layout, build_layout
from partita.errors import InfeasibleError, PlanError
from partita.plan import Identity, Plan, Stage
from partita.planners.drafts.draft import Draft, DraftLowering, DraftStage
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import Costs, StepCosts
from partita.planners.pricing.incremental import DraftPrice, ImpossibleError, IncrementalPricer
from partita.planners.result import Estimate
from partita.program import Load
from partita.regions import wire_bytes
from partita.simulation import latency_s
from partita.units import format_bytes

#: Drafts that a search prices for up to four devices, and more for each further one.
EVALUATIONS = 6000
EVALUATIONS_PER_DEVICE = 350
#: Evaluations between looks at the clock.
_LOOK_EVERY = 20
#: What an impossible plan scores.
IMPOSSIBLE = (float("inf"), float("inf"))
Score = tuple[float, float]


class RankKey(NamedTuple):
    """What a search compares.

    Attributes:
        score: The objective, and what breaks ties.
        strain: How late the steps are, for drafts that are equal but for it; 0 where unknown.
        messages: Pieces that are sent.
    """

    score: Score
    strain: float
    messages: int


class Evaluator:
    """Prices drafts and plans exactly as the simulation would, and remembers them.

    Args:
        cost: Seconds of layers and transfers.
        options: What is wanted.

    Raises:
        PlanError: An option names an unknown device or tensor.
        InfeasibleError: No device may compute.
    """

    def __init__(self, cost: Costs, options: PlanOptions) -> None:
        self.cost = cost
        self.options = options
        self.graph = cost.graph
        self.cluster = cost.cluster
        self.requester = cost.cluster.requester
        named = (*options.keep_on.values(), *(options.devices or ()), *options.energy_limits)
        for name in named:
            self.cluster.device(name)
        self.devices = tuple(options.devices or self.cluster.providers)
        self.outline = LayerOrder(self.graph, options.keep_on, self.requester)
        self.drafter = DraftLowering(self.outline)
        self._quick = _make_quick(cost, self.drafter, options)
        self.evaluations = 0
        #: Whether time has ended or shortened a search.
        self.was_cut = False
        self._next_look = 0
        self._began_s = time.thread_time()
        self._estimates: dict[Draft, Estimate | PlanError] = {}
        self._strains: dict[Draft, float] = {}
        self._slower: dict[Draft, float] = {}
        self._loads: dict[DraftStage, tuple[tuple[str, float], ...]] = {}
        outputs = sorted(layer.output_bytes for layer in self.graph.layers)
        self._widest_bytes = 2 * sum(outputs[-2:])
        self._room_bytes = [d.memory_bytes - self._widest_bytes for d in self.cluster.devices]
        self._watts = _watts(cost)
        names = self.cluster.names
        self._limits = [(names.index(name), most) for name, most in options.energy_limits.items()]
        self._model = Identity(self.graph.name, self.graph.hash)
        self._where = Identity(self.cluster.name, self.cluster.hash)

    @property
    def quick(self) -> IncrementalPricer | None:
        """The way of pricing without programs, where there is one."""
        return self._quick

    @property
    def most_evaluations(self) -> int:
        """How many drafts a search may price: as given, else by the number of devices."""
        given = self.options.max_evaluations
        return given or EVALUATIONS + EVALUATIONS_PER_DEVICE * max(0, len(self.devices) - 4)

    @property
    def is_over(self) -> bool:
        """Whether the time budget is spent; the clock is asked once in a few evaluations."""
        if not self.was_cut and self.evaluations >= self._next_look:
            self._next_look = self.evaluations + _LOOK_EVERY
            self.is_late(1.0)
        return self.was_cut

    def is_late(self, share: float) -> bool:
        """Whether more than a part of the budget is spent; a search that leaves out is cut."""
        late = self.spent > share
        self.was_cut |= late
        return late

    @property
    def spent(self) -> float:
        """The part of the budget that is spent, in seconds of this thread's computing."""
        return (time.thread_time() - self._began_s) / max(self.options.budget_s, 1e-9)

    def plan(self, draft: Draft, *, planner: str = "") -> Plan:
        """Return a draft as a plan."""
        return self._plan(self.drafter.stages(draft), planner)

    def layout(self, plan: Plan) -> Layout:
        """Return a plan's layout."""
        return build_layout(self.graph, plan, self.cluster)

    def _plan(self, stages: tuple[Stage, ...], planner: str) -> Plan:
        options = self.options
        return Plan(
            model=self._model,
            cluster=self._where,
            stages=stages,
            planner=planner,
            objective=options.objective,
            seed=options.seed,
            wires=dict(options.wires),
            in_flight=options.in_flight,
            keep_on=dict(options.keep_on),
        )

    def estimate(self, draft: Draft) -> Estimate:
        """Return a draft's predicted cost.

        Raises:
            PlanError: The draft breaks a rule: no link, a tensor that must stay.
            InfeasibleError: A device has too little memory.
        """
        found = self._estimates.get(draft)
        if found is None:
            found = self._estimates[draft] = self._estimate(draft)
        if isinstance(found, PlanError):
            raise found
        return found

    def _estimate(self, draft: Draft) -> Estimate | PlanError:
        quick = self._quick
        if quick is not None and quick.can_price(draft):
            try:
                price = quick.price(draft)
            except ImpossibleError:
                price = None
            if price is not None and self._fits(price) and self._saves(price):
                self.evaluations += 1
                self._strains[draft] = price.strain
                return self._quick_estimate(price)
        try:
            return self.evaluate(self.plan(draft), full=False)
        except PlanError as error:
            return error

    def trial(self, draft: Draft, limit_s: float = inf) -> RankKey | None:
        """Return what a search compares of a draft; None if impossible or surely above the limit.

        Args:
            draft: The draft.
            limit_s: Of the latency, where latency is the objective.
        """
        found = self._estimates.get(draft)
        if found is None and limit_s < inf and self._is_too_slow(draft, limit_s):
            return None
        try:
            estimate = self.estimate(draft)
        except PlanError:
            return None
        return RankKey(self.rate(estimate), self._strains.get(draft, 0.0), estimate.messages)

    def _is_too_slow(self, draft: Draft, limit_s: float) -> bool:
        """Whether a draft is slower than a limit, found without pricing all of it."""
        quick = self._quick
        if quick is None or self.options.objective != "latency" or not quick.can_price(draft):
            return False
        if self._slower.get(draft, -1.0) >= limit_s:
            return True
        try:
            slow = quick.price_within(draft, limit_s) is None
        except ImpossibleError:
            return False
        if slow:
            self.evaluations += 1
            self._slower[draft] = limit_s
        return slow

    def _quick_estimate(self, price: DraftPrice) -> Estimate:
        return Estimate(
            latency_s=price.latency_s,
            bottleneck_s=max(*price.busy_s, price.wires_s),
            memory_bytes={},
            energy_joules=sum(map(mul, price.busy_s, self._watts)),
            messages=price.messages,
            in_flight=self.options.in_flight,
        )

    def _fits(self, price: DraftPrice) -> bool:
        return all(map(le, price.load_bytes, self._room_bytes))

    def _saves(self, price: DraftPrice) -> bool:
        return all(
            price.busy_s[number] * self._watts[number] <= limit for number, limit in self._limits
        )

    def evaluate(self, plan: Plan, *, full: bool = True) -> Estimate:
        """Return a plan's predicted cost.

        Args:
            plan: The plan.
            full: Whether all of the estimate is wanted, or only what the objective asks for.

        Raises:
            PlanError: The plan breaks a rule.
            InfeasibleError: A device has too little memory.
        """
        self.evaluations += 1
        layout = self.layout(plan)
        objective = self.options.objective
        needed = full or objective == "memory"
        self._check_energy(layout)
        return Estimate(
            latency_s=latency_s(layout.program, self.cost.price(layout)),
            memory_bytes=self._check_memory(layout, needed=needed),
            bottleneck_s=self.cost.bottleneck_s(layout) if full or objective == "throughput" else 0,
            energy_joules=self.cost.energy_joules(layout) if full or objective == "energy" else 0,
            messages=len(layout.program.streams),
            in_flight=plan.in_flight,
        )

    def score(self, draft: Draft) -> Score:
        """Return the objective first and the latency second; infinite for impossible drafts."""
        try:
            return self.rate(self.estimate(draft))
        except PlanError:
            return IMPOSSIBLE

    def wire_bytes(self, tensor: str) -> int:
        """Return the payload size of a whole tensor in the wire format that it is given."""
        spec = self.graph.tensors[tensor]
        return wire_bytes(spec.shape, spec.dtype, self.options.wires.get(tensor, "raw"))

    def latency_of(self, draft: Draft) -> float:
        """Return a draft's latency in seconds; infinite for impossible drafts."""
        try:
            return self.estimate(draft).latency_s
        except PlanError:
            return float("inf")

    def rate(self, estimate: Estimate) -> Score:
        """Return an estimate's objective, and its latency to break ties."""
        if self.options.objective == "throughput":
            return (estimate.period_s, estimate.latency_s)
        if self.options.objective == "memory":
            shares = (
                used / self.cluster.device(name).memory_bytes
                for name, used in estimate.memory_bytes.items()
            )
            return (max(shares, default=0.0), estimate.latency_s)
        if self.options.objective == "energy":
            return (estimate.energy_joules, estimate.latency_s)
        return (estimate.latency_s, estimate.messages)

    def floor_s(self, draft: Draft) -> float:
        """Return seconds that a draft's latency is not below: the busiest device's computing.

        Much cheaper than an estimate. Sums over rows count as nothing.
        """
        busy = dict.fromkeys(self.devices, 0.0)
        for stage in draft:
            for device, seconds in self.loads(stage):
                busy[device] = busy.get(device, 0.0) + seconds
        return max(busy.values())

    def loads(self, stage: DraftStage) -> tuple[tuple[str, float], ...]:
        """Return the seconds each device computes for a stage; sums over rows count nothing."""
        found = self._loads.get(stage)
        if found is None:
            found = self._loads[stage] = self._stage_loads(stage)
        return found

    def _stage_loads(self, stage: DraftStage) -> tuple[tuple[str, float], ...]:
        if stage.axis == "reduce":
            return ()
        layers = self.outline.layers(stage.start, stage.stop)
        loads = []
        for number, device in enumerate(stage.devices):
            boxes = self.drafter.boxes_of(stage, number)
            if not all(box.is_empty for box in boxes.values()):
                work = self.outline.works.stage(layers, boxes)
                loads.append((device, self.cost.work_s(device, work)))
        return tuple(loads)

    def best(self, drafts: Iterable[Draft]) -> Draft:
        """Return the best of some drafts, the first among equals.

        Raises:
            InfeasibleError: None of them is possible; the message is the first one's.
        """
        best: Draft | None = None
        best_score = IMPOSSIBLE
        first: PlanError | None = None
        for draft in drafts:
            try:
                score = self.rate(self.estimate(draft))
            except PlanError as error:
                first = first or error
                continue
            if score < best_score:
                best, best_score = draft, score
        if best is None:
            reason = first.message if first else "No draft was made."
            subject = first.subject if first else ""
            raise InfeasibleError(f"No plan is possible: {reason}", subject=subject)
        return best

    def _check_energy(self, layout: Layout) -> None:
        if not self._limits or not isinstance(self.cost, StepCosts):
            return
        for name, seconds in self.cost.busy_s(layout).items():
            used, most = seconds * self.cost.watts_busy(name), self.options.energy_limits.get(name)
            if most is not None and used > most:
                raise InfeasibleError(
                    f"Plan asks too much energy of device '{name}': {used:.3g} J per request,"
                    f" allowed are {most:.3g} J. Raise its limit, or give work to other devices.",
                    subject=name,
                )

    def _check_memory(self, layout: Layout, *, needed: bool) -> dict[str, int]:
        """Return the memory that devices use; nothing where it surely suffices and none asks."""
        if not needed and self._surely_fits(layout):
            return {}
        used = {name: use.total for name, use in self.cost.memory(layout).items()}
        for name, total in used.items():
            allowed = self.cluster.device(name).memory_bytes
            if total > allowed:
                raise InfeasibleError(
                    f"Plan does not fit on device '{name}': needs {format_bytes(total)}, device"
                    f" has {format_bytes(allowed)}. Move layers to other devices, or raise memory"
                    " in the cluster file.",
                    subject=name,
                )
        return used

    def _surely_fits(self, layout: Layout) -> bool:
        program = layout.program
        for part in program.devices:
            pieces = sum(buffer.size_bytes for buffer in part.buffers) * program.in_flight
            weights = sum(
                layout.works[step.fragment].weight_bytes
                for step in part.steps
                if isinstance(step, Load)
            )
            most = pieces + 2 * weights + self._widest_bytes
            if most > self.cluster.device(part.device).memory_bytes:
                return False
        return True


def _make_quick(
    cost: Costs, drafter: DraftLowering, options: PlanOptions
) -> IncrementalPricer | None:
    """Return the quick way of pricing; None where links change or are shared, or memory counts."""
    if not isinstance(cost, StepCosts) or options.objective == "memory":
        return None
    if any(link.trace or link.medium is not None for link in cost.links.values()):
        return None
    return IncrementalPricer(cost, drafter, options)


def _watts(cost: Costs) -> Sequence[float]:
    if not isinstance(cost, StepCosts):
        return ()
    return [cost.watts_busy(name) for name in cost.cluster.names]
