"""What is wanted of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from partita.plan import Plan

Objective = Literal["latency", "throughput", "memory", "energy"]

OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput", "memory", "energy")


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
