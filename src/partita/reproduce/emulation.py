"""This machine in place of a paper's devices, on the emulated lab."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from math import lcm

from partita.cluster import Cluster
from partita.compile import Layout, compile_plan
from partita.cost import CostModel, CostOptions
from partita.engine import make_feeds
from partita.exactness.compare import compare_answers
from partita.execution import Durations, StepUse
from partita.fabric import Endpoint
from partita.graph import Graph
from partita.leader import DeployOptions, deploy
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import Profile

#: What a lab's device may hold: the kernels and caches of a plan that is priced with less, too.
MEMORY_BYTES = 2_000_000_000
#: Answers that are passed over while a pipeline fills, per request in flight. Not tuned.
_PASSED_ROUNDS = 2
#: Answers that are timed per request in flight, unless that takes so many times the least seconds:
#: where requests pass a device several times, answers come in bursts of about as many as are in
#: flight. 15 answers of AlexNet in twelve stages, 6 in flight, were up to 15 % off; 60 none.
_COUNTED_ROUNDS, _MOST_TIMES = 10, 3


@dataclass(frozen=True)
class Rate:
    """What a plan answers under steady load.

    Attributes:
        per_second: Answers per second.
        difference: Of the answers from the whole model's, as a part of the largest magnitude.
        steps: What each computing step took.
    """

    per_second: float
    difference: float
    steps: tuple[StepUse, ...] = ()


def emulate(
    cluster: Cluster,
    graph: Graph,
    profile: Profile,
    *,
    cores: float,
    precision: str = "float32",
) -> tuple[Cluster, float]:
    """A cluster for the lab, and how many times slower than the given one it is.

    Each device is slowed to the ratio that the catalogue gives it to the others, so far that they
    need ``cores`` of this machine when all compute; links and ports are slowed as much, so that
    computing and sending keep their proportion.

    Args:
        cluster: Of the catalogue's devices.
        profile: Of this machine.
        cores: How many the emulation may keep busy: fewer than there are, or devices wait for one.
        precision: Number format that the devices compute in, where they can.
    """
    known = CostModel(graph, cluster, options=CostOptions(precision=precision))
    here = CostModel(graph, Cluster.of(["here"]), profiles=profile)
    here_s = whole_s(here, "here")
    ratios = {name: whole_s(known, name) / here_s for name in cluster.providers}
    scale = max(sum(1 / ratio for ratio in ratios.values()) / cores, 1 / min(ratios.values()))
    devices = tuple(
        replace(
            device,
            kind="this-machine",
            precisions=("float32",),
            provider="CPUExecutionProvider",
            memory_bytes=MEMORY_BYTES,
            slow_down=max(1.0, ratios.get(device.name, 0.0) * scale),
            port_bytes_per_s=device.port_bytes_per_s and device.port_bytes_per_s / scale,
            swap_bytes_per_s=None,
        )
        for device in cluster.devices
    )
    links = tuple(
        replace(
            link,
            bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / scale,
            latency_s=link.latency_s * scale,
            per_message_s=link.per_message_s * scale,
        )
        for link in cluster.links
    )
    name = f"{cluster.name}-emulated"
    return replace(cluster, name=name, devices=devices, links=links), scale


def whole_s(cost: CostModel, device: str) -> float:
    """The seconds of all layers of a network on one device."""
    plan = find_plan(cost, planner="single", options=PlanOptions(devices=(device,))).plan
    return cost.busy_s(cost.layout(plan))[device]


def measure_rate(
    endpoint: Endpoint, cost: CostModel, plan: Plan, *, least_s: float, seed: int = 0
) -> Rate:
    """What a plan answers on the workers while inputs never run out.

    Neither the filling of the pipeline counts nor its end: answers are timed after some have come,
    and inputs follow until the last one that is timed is there. Replicas are seen for whole turns
    of their shares where these are short.

    Args:
        endpoint: A leader's.
        cost: Says how fast this machine was when it was profiled.
        least_s: Least seconds that are timed.
        seed: Of the inputs.

    Raises:
        RunError: A worker is missing, refuses or fails.
    """
    compiled = compile_plan(cost.graph, plan, cost.cluster)
    feeds = make_feeds(cost.graph.input_specs, seed)
    turn = lcm(*(sum(stage.shares) for stage in plan.stages if stage.shares))
    if turn > _COUNTED_ROUNDS * plan.in_flight:
        turn = 1
    look = -(-plan.in_flight // turn) * turn
    options = DeployOptions(reference_s=cost.reference_s, trace=False)
    with deploy(compiled, endpoint, options) as session:
        answers = session.iterate(itertools.repeat(feeds))
        first = next(answers)
        for _ in range(_PASSED_ROUNDS * plan.in_flight):
            next(answers)
        start_s, took_s, counted = time.monotonic(), 0.0, 0
        while took_s < least_s or (
            counted < _COUNTED_ROUNDS * plan.in_flight and took_s < _MOST_TIMES * least_s
        ):
            for _ in range(look):
                last = next(answers)
            took_s, counted = time.monotonic() - start_s, counted + look
        steps = session.report().steps
    worst = compare_answers(cost.graph, [feeds, feeds], [first, last])
    return Rate(counted / took_s, worst.relative, steps)


def as_measured(cost: CostModel, layout: Layout, rate: Rate) -> Durations:
    """The durations of a layout with its computing steps as they were measured."""
    durations = cost.price(layout)
    took = {step.step: step.p50_s for step in rate.steps}
    return replace(durations, compute_s={**durations.compute_s, **took})
