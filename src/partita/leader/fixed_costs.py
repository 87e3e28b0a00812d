"""The fixed costs of messages and requests, as measured on the workers in use."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from partita.cluster import Link
from partita.cost import CostModel, CostOptions
from partita.fabric import Endpoint
from partita.leader.links import measure_link
from partita.leader.relay import (
    MESSAGE_BYTES,
    TRIAL,
    WithoutWeights,
    can_relay,
    measure_relay_s,
    relay_paths,
)
from partita.leader.start import deploy
from partita.leader.worker_group import WorkerGroup
from partita.program import (
    Buffer,
    Deliver,
    DeviceProgram,
    Feed,
    Input,
    Program,
    TensorSpec,
)
from partita.regions import Region

_MESSAGE_BYTES = 65_536
#: Devices that pass messages round at most: the ring of more would take seconds.
_MOST_RELAYED = 8
_REPEATS = 9
_WAIT_S = 10.0


def measure_fixed_costs(endpoint: Endpoint, cost: CostModel, program: Program) -> CostOptions:
    """The costs of a message, a run and a request beyond those of links and profiles.

    Where all devices have links to each other, messages go round among all of them; else a single
    one goes over each link, and runs are not measured. Half of a message's cost falls to its
    sender, half to its receiver.

    Args:
        endpoint: A leader's, that reaches the workers.
        cost: Links and runs, as plans are priced with them; its options are not looked at.
        program: Of the network to run; requests cost more with larger inputs and outputs.

    Raises:
        RunError: A worker is missing or does not answer.
    """
    cluster = cost.cluster
    names = list(dict.fromkeys((program.requester, *(part.device for part in program.devices))))
    WorkerGroup(endpoint, sorted(names)).wait(_WAIT_S)
    admit_s = measure_admit_s(endpoint, program)
    # Workers that the program does not use need not be there.
    there = {*names, *endpoint.peers()}
    others = (n for n in cluster.providers if n != program.requester and n in there)
    everybody = [program.requester, *others]
    compute_s = 0.0
    if can_relay(cluster, everybody):
        message_s, compute_s = _measure_steps(endpoint, cost, everybody[:_MOST_RELAYED], admit_s)
    else:
        links = [link for link in cluster.links if {link.source, link.target} <= set(names)]
        message_s = statistics.median([_beyond_s(endpoint, link) for link in links] or [0.0])
    return CostOptions(
        precision=cost.options.precision,
        admit_s=admit_s,
        receive_s=message_s / 2,
        send_s=message_s / 2,
        compute_s=compute_s,
    )


def _measure_steps(
    endpoint: Endpoint, cost: CostModel, names: Sequence[str], admit_s: float
) -> tuple[float, float]:
    """The seconds of a message beyond its link's, and of a run beyond its profile's.

    Args:
        endpoint: A leader's.
        cost: Links between all of ``names``.
        names: The requester first.
        admit_s: What a request costs that sends nothing.
    """
    paths = relay_paths(names)
    longest = max(paths, key=len)
    hops = list(pairwise(longest))
    links = (cost.cluster.link(*hop) for hop in hops)
    sent_s = sum(link.message_s(MESSAGE_BYTES) for link in links if link is not None)
    run_s = sum(cost.devices[target].copy_run_s(MESSAGE_BYTES) for _, target in hops)
    passed_s = measure_relay_s(endpoint, paths)
    computed_s = measure_relay_s(endpoint, paths, computes=True)
    return (
        max(0.0, passed_s - admit_s - sent_s) / len(hops),
        max(0.0, computed_s - passed_s - run_s) / len(hops),
    )


def _beyond_s(endpoint: Endpoint, link: Link) -> float:
    """The seconds of a message beyond the link's own."""
    (sample,) = measure_link(
        endpoint, link.source, link.target, (_MESSAGE_BYTES,), repeats=_REPEATS
    )
    return max(0.0, sample.seconds - link.message_s(sample.size_bytes))


def measure_admit_s(endpoint: Endpoint, program: Program) -> float:
    """The median latency of a program that computes nothing: the work per request itself.

    It takes the network's inputs and answers with a part of the first of them, about as large as
    the network's outputs.
    """
    idle = make_idle_program(program)
    inputs = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in idle.inputs}
    with deploy(WithoutWeights(idle), endpoint, TRIAL) as session:
        session.run([inputs] * 3, in_flight=1)
        session.run([inputs] * _REPEATS, in_flight=1)
        return session.report().quantile_s(0.5)


def refine_cost(endpoint: Endpoint, cost: CostModel, program: Program) -> CostModel:
    """The cost model with the fixed costs of these workers, as measured."""
    return CostModel(
        cost.graph,
        cost.cluster,
        estimator=cost.estimator,
        profiles=cost.profiles,
        options=measure_fixed_costs(endpoint, cost, program),
    )


def make_idle_program(program: Program) -> Program:
    """The program of a network with the same inputs that answers with part of the first."""
    first = program.inputs[0]
    # In elements of the first input, which may be of another type than the outputs.
    item_bytes = first.size_bytes / max(1, math.prod(first.shape))
    wanted = sum(spec.size_bytes for spec in program.outputs) / item_bytes
    box = Region.full(first.shape)
    # One axis may be too short: a channel of a picture can be many times a classifier's answer.
    for axis, extent in enumerate(first.shape):
        share = wanted / max(1, box.size)
        if share < 1:
            box = box.with_axis(axis, (0, max(1, round(extent * share))))
    buffers = tuple(
        Buffer(k, spec.name, Region.full(spec.shape), spec.dtype, int(k == 0))
        for k, spec in enumerate(program.inputs)
    )
    feeds = tuple(Feed(k, spec.name, k) for k, spec in enumerate(program.inputs))
    deliver = Deliver(len(feeds), (Input(first.name, box, (0,)),))
    return Program(
        plan_hash="idle",
        model_hash=program.model_hash,
        requester=program.requester,
        inputs=program.inputs,
        outputs=(TensorSpec(first.name, box.shape, first.dtype),),
        streams=(),
        fragments=(),
        devices=(DeviceProgram(program.requester, (*feeds, deliver), buffers),),
    )
