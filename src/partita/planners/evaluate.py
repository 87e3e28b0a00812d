"""The price of plans: one place where planners learn how good a plan is."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from partita.compile import Layout, build_layout
from partita.errors import InfeasibleError, PlanError
from partita.execution import Durations, weight_bytes
from partita.plan import Identity, Plan, Stage
from partita.planners.base import Costs, Estimate, PlanOptions
from partita.planners.draft import Draft, Drafter
from partita.planners.outline import Outline
from partita.planners.power import device_watts
from partita.program import Compute, Deliver, DeviceProgram, Feed, Program, Receive, Send, Step
from partita.simulation import latency_s
from partita.units import format_bytes

#: What an impossible plan scores.
IMPOSSIBLE = (float("inf"), float("inf"))
Score = tuple[float, float]


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
        for name in (*options.keep_on.values(), *(options.devices or ())):
            self.cluster.device(name)
        self.devices = tuple(options.devices or self.cluster.names)
        self.outline = Outline(self.graph, options.keep_on, self.requester)
        self.drafter = Drafter(self.outline)
        self.evaluations = 0
        self._began_s = time.monotonic()
        self._estimates: dict[Draft, Estimate | PlanError] = {}
        self._model = Identity(self.graph.name, self.graph.hash)
        self._where = Identity(self.cluster.name, self.cluster.hash)

    @property
    def is_over(self) -> bool:
        """Whether the time budget is spent."""
        return time.monotonic() - self._began_s > self.options.budget_s

    @property
    def is_exhausted(self) -> bool:
        """Whether the time budget or the number of evaluations is spent."""
        return self.evaluations >= self.options.max_evaluations or self.is_over

    def plan(self, draft: Draft, *, planner: str = "") -> Plan:
        """Return a draft as a plan."""
        return self._plan(self.drafter.stages(draft), planner)

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
            try:
                found = self.evaluate(self.plan(draft))
            except PlanError as error:
                found = error
            self._estimates[draft] = found
        if isinstance(found, PlanError):
            raise found
        return found

    def evaluate(self, plan: Plan) -> Estimate:
        """Return a plan's predicted cost.

        Raises:
            PlanError: The plan breaks a rule.
            InfeasibleError: A device has too little memory.
        """
        self.evaluations += 1
        layout = build_layout(self.graph, plan, self.cluster)
        durations = self.cost.price(layout)
        latency = latency_s(layout.program, durations)
        memory = self._check_memory(layout)
        busy = lane_seconds(layout, durations)
        bottleneck = max(busy.values(), default=0.0)
        return Estimate(latency, bottleneck, memory, self._energy(busy, latency), plan.in_flight)

    def score(self, draft: Draft) -> Score:
        """Return the objective first and the latency second; infinite for impossible drafts."""
        try:
            return self.rate(self.estimate(draft))
        except PlanError:
            return IMPOSSIBLE

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
            energy = estimate.energy_joules
            return (estimate.latency_s if energy is None else energy, estimate.latency_s)
        return (estimate.latency_s, estimate.bottleneck_s)

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

    def _check_memory(self, layout: Layout) -> dict[str, int]:
        used = memory_bytes(layout.program)
        for name, needed in used.items():
            allowed = self.cluster.device(name).memory_bytes
            if needed > allowed:
                raise InfeasibleError(
                    f"Plan does not fit on device '{name}': needs {format_bytes(needed)}, device"
                    f" has {format_bytes(allowed)}. Move layers to other devices, or raise memory"
                    " in the cluster file.",
                    subject=name,
                )
        return used

    def _energy(self, busy: Mapping[tuple[str, str], float], latency: float) -> float | None:
        total, known = 0.0, False
        for device in self.cluster.devices:
            power = device_watts(device.kind)
            if power is not None:
                known = True
                working = busy.get((device.name, "compute"), 0.0)
                total += power[1] * working + power[0] * max(0.0, latency - working)
        return total if known else None


def lane_seconds(layout: Layout, durations: Durations) -> dict[tuple[str, str], float]:
    """Return the busy seconds of each lane for one request: (device, lane) to seconds.

    Replicas count as if each request were routed to them in turn.
    """
    program = layout.program
    streams = {stream.id: stream for stream in program.streams}
    busy: dict[tuple[str, str], float] = defaultdict(float)
    for part in program.devices:
        for step in part.steps:
            share = _share(step, program)
            if isinstance(step, Compute):
                busy[part.device, "compute"] += durations.compute_s[step.id] * share
            elif isinstance(step, Receive):
                busy[part.device, "receive"] += durations.receive_s.get(step.id, 0.0) * share
            elif isinstance(step, Send):
                stream = streams[step.stream]
                link = durations.links[stream.source, stream.target]
                wire_s = link.per_message_s + stream.wire_bytes / link.bandwidth_bytes_per_s
                encode_s = durations.encode_s.get(step.id, 0.0)
                busy[part.device, stream.target] += (encode_s + wire_s) * share
                if link.medium is not None:
                    busy["medium", link.medium] += wire_s * share
    return busy


def _share(step: Step, program: Program) -> float:
    share = 1.0
    for group, _ in getattr(step, "when", ()):
        share /= program.routes[group]
    return share


def memory_bytes(program: Program) -> dict[str, int]:
    """Return what each device needs: weights, and the most bytes of pieces held in program order.

    Pieces of all requests under way count, as if each were at its worst place.
    """
    return {
        part.device: weight_bytes(program, part.device) + _peak_bytes(part) * program.in_flight
        for part in program.devices
    }


def _peak_bytes(part: DeviceProgram) -> int:
    sizes = {buffer.id: buffer.size_bytes for buffer in part.buffers}
    readers = {buffer.id: buffer.readers for buffer in part.buffers}
    live = peak = 0
    for step in part.steps:
        written: tuple[int, ...] = ()
        read: set[int] = set()
        if isinstance(step, Compute):
            written, read = step.writes, {b for one in step.reads for b in one.buffers}
        elif isinstance(step, Feed | Receive):
            written = (step.write,)
        elif isinstance(step, Send):
            read = {step.read}
        elif isinstance(step, Deliver):
            read = {b for one in step.reads for b in one.buffers}
        live += sum(sizes[buffer] for buffer in written)
        peak = max(peak, live)
        for buffer in read:
            readers[buffer] -= 1
            if not readers[buffer]:
                live -= sizes[buffer]
    return peak
