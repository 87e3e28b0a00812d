"""What a planner is given, what it returns, and the list of planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from partita.cluster import Cluster
from partita.compile import FragmentWork, Layout
from partita.cost import MemoryUse
from partita.errors import PlanError
from partita.execution import Durations, LinkSpec
from partita.graph import Graph
from partita.plan import Plan
from partita.regions import Region

if TYPE_CHECKING:
    from partita.planners.draft import Draft
    from partita.planners.evaluate import Evaluator

Objective = Literal["latency", "throughput", "memory", "energy"]
#: How planning time grows: ``cheap`` with the layers, ``search`` up to the budget, ``exponential``.
#: ``published`` methods are quick too, but there to be compared with: no other planner asks them.
#: ``training`` takes the steps that its method gives, minutes perhaps, whatever the budget.
PlannerCost = Literal["cheap", "search", "exponential", "published", "training"]
Status = Literal["optimal", "feasible", "heuristic", "cut short"]

OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput", "memory", "energy")


class Costs(Protocol):
    """What planners ask of a cost model."""

    @property
    def graph(self) -> Graph:
        """The network."""

    @property
    def cluster(self) -> Cluster:
        """Devices and links."""

    def layer_s(self, device: str, layer: str, boxes: Mapping[str, Region]) -> float:
        """Return the seconds for boxes of one layer's outputs, alone."""

    def work_s(self, device: str, work: FragmentWork) -> float:
        """Return the seconds for one fragment."""

    def transfer_s(self, source: str, target: str, size_bytes: float) -> float:
        """Return the seconds from the start of a message's sending to its arrival."""

    def price(self, layout: Layout) -> Durations:
        """Return the durations of all steps of a layout."""

    def memory(self, layout: Layout) -> Mapping[str, MemoryUse]:
        """Return the memory that each device needs."""

    def bottleneck_s(self, layout: Layout) -> float:
        """Return the largest busy time per request over devices and links."""

    def energy_joules(self, layout: Layout) -> float:
        """Return the energy of one request."""


@runtime_checkable
class StepCosts(Costs, Protocol):
    """Costs that also tell the parts of a message, so that drafts need no layout to be priced."""

    @property
    def links(self) -> Mapping[tuple[str, str], LinkSpec]:
        """Every link as the simulation takes it."""

    @property
    def admit_s(self) -> float:
        """The leader's own seconds per request."""

    def encode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """Return the seconds of sending a piece beyond the link's, by its bytes in memory."""

    def decode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """Return the seconds of receiving a piece beyond the link's, by its bytes in memory."""

    def watts_busy(self, device: str) -> float:
        """Return a device's power while it computes."""

    def busy_s(self, layout: Layout) -> Mapping[str, float]:
        """Return the seconds that each device computes per request."""


@dataclass(frozen=True)
class PlanOptions:
    """What is wanted of a plan.

    Attributes:
        objective: What is made small: the latency of one request, the time per request under load,
            the largest part of any device's memory, or the energy of one request.
        budget_s: Most seconds a search may take.
        seed: Of random moves. Equal seeds give equal plans unless the budget cuts the search short.
        in_flight: Most requests under way at the same time.
        keep_on: Tensors that must not leave a device: tensor name to device name.
        wires: Wire format per tensor, where it is not to travel raw.
        devices: Names of the devices that may compute; the cluster's providers when None.
        max_evaluations: Most plans a search may price; None for what the number of devices asks.
        axes: Along which ``best`` may divide stages: some of ``rows``, ``tiles`` and
            ``output_channels``; all when None.
        compress: Wire format that tensors of floating point may travel in where that is faster;
            None keeps them raw.
        energy_limits: Most joules of one request, by device.
        method: Settings of single methods: values by ``planner.setting``, as text.
        measure: Runs a plan and returns its seconds per request, for methods that learn from real
            runs; the cost model's prediction when None.
    """

    objective: Objective = "latency"
    budget_s: float = 60.0
    seed: int = 0
    in_flight: int = 1
    keep_on: Mapping[str, str] = field(default_factory=dict)
    wires: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] | None = None
    max_evaluations: int | None = None
    axes: tuple[str, ...] | None = None
    compress: str | None = None
    energy_limits: Mapping[str, float] = field(default_factory=dict)
    method: Mapping[str, str] = field(default_factory=dict)
    measure: Callable[[Plan], float] | None = None


@dataclass(frozen=True)
class Estimate:
    """What a plan is predicted to cost.

    Attributes:
        latency_s: One request alone, from its feed to its answer.
        bottleneck_s: Largest busy time per request over all lanes of devices and links.
        memory_bytes: Per device: weights, the engine's copies, and the most bytes held at a time.
        energy_joules: Of all devices' computing for one request.
        messages: Pieces that are sent for one request.
        in_flight: Requests under way at the same time.
    """

    latency_s: float
    bottleneck_s: float
    memory_bytes: Mapping[str, int]
    energy_joules: float
    messages: int
    in_flight: int = 1

    @property
    def period_s(self) -> float:
        """Seconds per request under steady load."""
        return max(self.bottleneck_s, self.latency_s / self.in_flight)

    @property
    def images_per_second(self) -> float:
        """Requests answered per second under steady load."""
        return 1.0 / self.period_s if self.period_s > 0 else float("inf")


@dataclass(frozen=True)
class Found:
    """A planner's answer before it is judged.

    Attributes:
        draft: The plan as ranges of layers.
        status: How good it is among what the planner may choose.
    """

    draft: Draft
    status: Status = "heuristic"


@dataclass(frozen=True)
class Result:
    """A plan, and how good it is.

    Attributes:
        estimate: The plan's predicted cost.
        lower_bound_s: No plan has a smaller latency.
        status: ``optimal`` where the latency is the lower bound, or none of the plans that
            ``exhaustive`` tries is better (it tries no tiles and no replicas, takes devices in
            their order, and divides channels in quarters); ``feasible`` when a constraint leaves a
            plan but no measure of it; ``cut short`` when the budget ended a search.
        search_s: Seconds that planning took.
        worth_splitting: Whether the plan beats the best single device by more than a hundredth, in
            what the objective measures.
        best_single_s: Latency of the best single device; infinite where none can hold the network.
        evaluations: Plans that were priced.
        single: What the best single device costs by the objective; None where none can hold the
            network.
    """

    plan: Plan
    estimate: Estimate
    lower_bound_s: float
    status: Status
    search_s: float
    worth_splitting: bool
    best_single_s: float
    evaluations: int
    single: Estimate | None = None

    def __repr__(self) -> str:
        stages = f"{len(self.plan.stages)} stages"
        return f"Result({self.plan.planner!r}, {self.status}, {stages}, {self.latency_s:.4g} s)"

    @property
    def latency_s(self) -> float:
        """Predicted latency of one request."""
        return self.estimate.latency_s

    @property
    def bottleneck_s(self) -> float:
        """Predicted largest busy time per request."""
        return self.estimate.bottleneck_s


ChooseDraft = Callable[["Evaluator"], Found]


@dataclass(frozen=True)
class Planner:
    """One registered method.

    Attributes:
        settings: A dataclass whose fields are what ``PlanOptions.method`` may change, with their
            defaults; None for a method without settings.
    """

    name: str
    cost: PlannerCost
    summary: str
    choose: ChooseDraft
    settings: object = None


_PLANNERS: dict[str, Planner] = {}


def register(
    name: str, *, cost: PlannerCost, settings: object = None
) -> Callable[[ChooseDraft], ChooseDraft]:
    """Add a planning function under a name; its first docstring line becomes its summary."""

    def add(choose: ChooseDraft) -> ChooseDraft:
        summary = (choose.__doc__ or "").partition("\n")[0]
        _PLANNERS[name] = Planner(name, cost, summary, choose, settings)
        return choose

    return add


def planner_names() -> tuple[str, ...]:
    """Return the names of all planners, quick ones first."""
    ranks: tuple[PlannerCost, ...] = ("cheap", "published", "exponential", "search", "training")
    return tuple(sorted(_PLANNERS, key=lambda name: ranks.index(_PLANNERS[name].cost)))


def get_planner(name: str) -> Planner:
    """Return the planner called ``name``.

    Raises:
        PlanError: There is none; the message lists those that exist.
    """
    found = _PLANNERS.get(name)
    if found is None:
        known = ", ".join(planner_names())
        raise PlanError(f"Planner '{name}' is unknown; allowed: {known}.", subject=name)
    return found
