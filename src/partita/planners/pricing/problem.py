"""What is to be planned: the network, the devices that may compute, and what is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import inf, prod

from partita.compile import Layout, build_layout
from partita.cost import MemoryUse
from partita.graph.grids import travel_formats
from partita.graph.pins import spread_pins
from partita.plan import Identity, Plan
from partita.planners.drafts.draft import Draft, DraftLowering
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import Costs, StepCosts
from partita.regions import coded_bytes, wire_bytes


class Problem:
    """A planning problem, and drafts as plans of it.

    Attributes:
        devices: Names of those that may compute.
        formats: Wire formats of tensors that do not travel raw.
        watts: Of each device of the cluster while it computes; empty where costs do not tell.

    Raises:
        PlanError: An option names an unknown device or tensor.
        InfeasibleError: No device may compute.
    """

    def __init__(self, cost: Costs, options: PlanOptions) -> None:
        self.cost = cost
        self.graph = cost.graph
        self._keep_on = options.keep_on
        self.options = replace(options, keep_on=spread_pins(self.graph, options.keep_on))
        self.formats = travel_formats(cost.graph, options.wires)
        self.cluster = cost.cluster
        self.requester = cost.cluster.requester
        for name in options.named_devices:
            self.cluster.device(name)
        self.devices = tuple(options.devices or self.cluster.providers)
        self.outline = LayerOrder(self.graph, self.options.keep_on, self.requester)
        self.lowering = DraftLowering(self.outline)
        self.watts: Sequence[float] = ()
        if isinstance(cost, StepCosts):
            self.watts = [cost.watts_busy(name) for name in self.cluster.names]
        self._model = Identity(self.graph.name, self.graph.hash)
        self._where = Identity(self.cluster.name, self.cluster.hash)

    def with_in_flight(self, in_flight: int) -> Problem:
        """The same problem with another number of requests in flight."""
        other = copy(self)
        other.options = replace(self.options, in_flight=in_flight)
        return other

    def may_swap(self, device: str) -> bool:
        """Whether a device may hold more than its memory, at what that costs."""
        return self.limit_bytes(device) == inf

    def limit_bytes(self, device: str) -> float:
        """The most that a device may hold; infinite where it may swap."""
        return self.cluster.device(device).limit_bytes(swap=self.options.swap)

    def swap_s(self, device: str, use: MemoryUse) -> float:
        """The seconds per request that a device which may swap takes for what does not fit."""
        return self.cost.swap_s(device, use) if self.options.swap else 0.0

    def plan(self, draft: Draft, *, planner: str = "") -> Plan:
        """A draft as a plan."""
        options = self.options
        return Plan(
            model=self._model,
            cluster=self._where,
            stages=self.lowering.stages(draft),
            planner=planner,
            objective=options.objective,
            seed=options.seed,
            wires=dict(options.wires),
            in_flight=options.in_flight,
            keep_on=dict(self._keep_on),
            bits=dict(self.graph.bits),
            integer_kernels=self.graph.integer,
        )

    def layout(self, plan: Plan) -> Layout:
        """A plan's layout."""
        return build_layout(self.graph, plan, self.cluster)

    def wire_bytes(self, tensor: str) -> int:
        """The payload size of a whole tensor in the wire format that it is given."""
        spec = self.graph.tensors[tensor]
        return wire_bytes(spec.shape, spec.dtype, self.formats.get(tensor, "raw"))

    def coded_bytes(self, tensor: str) -> int:
        """What the time of coding a whole tensor goes by, in that format."""
        spec = self.graph.tensors[tensor]
        return coded_bytes(prod(spec.shape), spec.dtype, self.formats.get(tensor, "raw"))
