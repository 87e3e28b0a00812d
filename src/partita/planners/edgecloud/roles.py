"""Who is the edge and who the cloud, what layers cost on either, and drafts of two devices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from partita.errors import PlanError
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.edgecloud.min_cut import SharedTensor, TwoSides
from partita.planners.pricing.costs import Costs, StepCosts
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.rows import can_talk, device_speeds
from partita.regions import Region


@dataclass(frozen=True)
class Roles:
    """Two devices; one alone is both.

    Attributes:
        edge: Where inputs are and the answer is wanted, if that device computes.
        cloud: Has the rest.
    """

    edge: str
    cloud: str


@dataclass(frozen=True)
class RoleSettings:
    """Who has which part.

    Attributes:
        cloud: Name of the device that is the cloud; None for the fastest that may be.
    """

    cloud: str | None = None


ROLES = RoleSettings()


def find_roles(evaluator: Evaluator, cloud: str | None = None) -> Roles:
    """The requester, and the fastest other device that has links from and to it.

    Args:
        cloud: Name of the other device, if it is given.

    Raises:
        PlanError: There is no such device, as where it was lost, or it may not compute.
    """
    home = evaluator.requester
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    if cloud is None:
        others = [name for name in speeds if name != home]
        linked = [name for name in others if can_talk(evaluator, home, name)] or others
        cloud = max(linked, key=speeds.__getitem__, default=home)
    elif cloud not in speeds:
        is_there = cloud in evaluator.cluster.names
        why = "may not compute" if is_there else "is not in the cluster"
        allowed = ", ".join(evaluator.devices)
        raise PlanError(
            f"Device '{cloud}' is to be the cloud, but {why}; allowed: {allowed}.", subject=cloud
        )
    return Roles(home if home in speeds else cloud, cloud)


def split_draft(evaluator: Evaluator, roles: Roles, edge: Collection[int]) -> Draft:
    """Layers at some positions on the edge, all others in the cloud, but for those pinned."""
    positions = range(len(evaluator.outline))
    return placed_draft(evaluator, [roles.edge if p in edge else roles.cloud for p in positions])


def placed_draft(evaluator: Evaluator, devices: Sequence[str]) -> Draft:
    """Each layer of the order on a device, but for those pinned.

    Ranges of layers that follow each other on one device are one stage.
    """
    pins = evaluator.outline.pins
    stages, start = [], 0
    for device, run in groupby(pins.get(place, name) for place, name in enumerate(devices)):
        stop = start + len(list(run))
        stages.append(DraftStage(start, stop, "none", (device,)))
        start = stop
    return tuple(stages)


def prefix_drafts(evaluator: Evaluator, roles: Roles) -> list[Draft]:
    """Every prefix of the order on the edge, from none of the layers to all."""
    count = len(evaluator.outline)
    stops = range(count + 1) if roles.edge == evaluator.requester else (0,)
    return [split_draft(evaluator, roles, range(stop)) for stop in stops]


def two_sides(evaluator: Evaluator, roles: Roles) -> TwoSides:
    """What layers cost on edge and cloud, one after the other, and what sending tensors costs.

    Paid once are the delays of both links, and what a device takes for a fragment beyond its
    layers: where the cloud has any layer it has one that answers.
    """
    outline, (edge, cloud) = evaluator.outline, (roles.edge, roles.cloud)
    layers_s = {
        device: layer_seconds(evaluator.cost, device, outline.order) for device in {edge, cloud}
    }
    start_s = {device: fragment_s(evaluator, device) for device in {edge, cloud}}
    links = (evaluator.cluster.link(edge, cloud), evaluator.cluster.link(cloud, edge))
    delay_s = sum(link.latency_s for link in links if link is not None)
    place = {name: position for position, name in enumerate(outline.order)}
    tensors = []
    for tensor in evaluator.graph.tensors:
        readers = tuple(place[layer.name] for layer in evaluator.graph.readers(tensor))
        if readers:
            maker = evaluator.graph.producer(tensor)
            at = -1 if maker is None else place[maker.name]
            send_s = _busy_s(evaluator, tensor, (edge, cloud))
            tensors.append(SharedTensor(at, readers, send_s))
    return TwoSides(
        [pinned_s(evaluator, p, edge, s) for p, s in enumerate(layers_s[edge])],
        [
            pinned_s(evaluator, p, cloud, s) + answer_s(evaluator, p, (cloud, edge))
            for p, s in enumerate(layers_s[cloud])
        ],
        tensors,
        start_s[edge],
        start_s[cloud] + delay_s,
    )


def layer_seconds(cost: Costs, device: str, layers: Sequence[str]) -> list[float]:
    """The seconds of each layer, whole."""
    graph = cost.graph
    return [
        cost.layer_s(
            device,
            name,
            {t: Region.full(graph.tensors[t].shape) for t in graph.layer(name).outputs},
        )
        for name in layers
    ]


def fragment_s(evaluator: Evaluator, device: str) -> float:
    """The seconds of a fragment beyond its layers, those of the whole network."""
    order = evaluator.outline.order
    layers_s = sum(layer_seconds(evaluator.cost, device, order))
    return max(0.0, evaluator.ranges.work_s(0, len(order), device) - layers_s)


def pinned_s(evaluator: Evaluator, position: int, device: str, seconds: float) -> float:
    """The seconds of a layer; infinite where it must be elsewhere."""
    return seconds if evaluator.outline.pins.get(position, device) == device else inf


def _busy_s(evaluator: Evaluator, tensor: str, ends: tuple[str, str]) -> float:
    """The seconds that sending a tensor adds, without the delay of the link."""
    problem, link = evaluator.problem, evaluator.cluster.link(*ends)
    if ends[0] == ends[1]:
        return 0.0
    if link is None or tensor in problem.options.keep_on:
        return inf
    seconds = problem.cost.transfer_s(*ends, problem.wire_bytes(tensor)) - link.latency_s
    if isinstance(problem.cost, StepCosts):
        wire, size = problem.formats.get(tensor, "raw"), problem.coded_bytes(tensor)
        seconds += problem.cost.encode_s(ends[0], wire, size)
        seconds += problem.cost.decode_s(ends[1], wire, size)
    return seconds


def answer_s(evaluator: Evaluator, position: int, ends: tuple[str, str]) -> float:
    """The seconds that what a layer answers takes from where it is made to the requester."""
    layer = evaluator.graph.layer(evaluator.outline.order[position])
    answers = (tensor for tensor in layer.outputs if tensor in evaluator.graph.outputs)
    return sum(_busy_s(evaluator, tensor, ends) for tensor in answers)
