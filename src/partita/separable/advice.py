"""Which staleness fits a cluster, and whether the plain network divided does as well (section 4.6).

The requirement figure compares a message with all blocks of its window. Here features leave behind
the first of them, so that those after it are what hides the message: both numbers are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf

from partita.cluster import Cluster
from partita.compile import account_layout
from partita.cost import CostModel
from partita.errors import InputError
from partita.execution import Link
from partita.graph import Graph, load_graph
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.simple.paths import spread_parts
from partita.planners.simple.rows import device_speeds
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import Policy, rotating, silent
from partita.separable.requirements import (
    least_bits_per_s,
    least_staleness,
    most_macs_per_s,
    requirements,
)
from partita.separable.traffic import count_traffic

#: Dividing the plain network is as good where it takes at most so many times as long.
AS_GOOD = 1.05

#: What networks cost on the cluster.
MakeCost = Callable[[Graph], CostModel]


@dataclass(frozen=True)
class DeviceNeed:
    """What one device asks of staleness, if it has one group.

    Attributes:
        macs_per_s: What it computes of this network.
        bits_per_s: Of its slowest link to others, its ports counted.
        message_s: The longest message of a stage over that link, latency included.
        block_s: The blocks that it is compared with.
        by_figure: Least staleness by the requirement figure; None where no window is long enough.
        hiding: Least staleness whose blocks behind the first take as long as the message.
    """

    device: str
    macs_per_s: float
    bits_per_s: float
    message_s: float
    block_s: float
    by_figure: int | None
    hiding: int | None


@dataclass(frozen=True)
class Service:
    """What one staleness serves.

    Attributes:
        least_bits_per_s: Links from which it hides transfers of the fastest device, by the figure.
        most_macs_per_s: Devices up to which it does on the slowest link.
        byte_share: What travels, of the ring's bytes, where every group sends all it has.
        latency_s: Predicted with groups placed by ``branches``.
        devices: Those that have groups then.
    """

    staleness: int
    least_bits_per_s: float
    most_macs_per_s: float
    byte_share: float
    latency_s: float
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Share:
    """What the device with most of it has where groups are shared out by speed alone.

    Attributes:
        devices: Among which: the fastest.
        macs: Multiply-accumulates of one request.
        memory_bytes: What its worker holds beyond an idle one.
        latency_s: Predicted.
    """

    devices: tuple[str, ...]
    macs: float
    weight_bytes: int
    memory_bytes: int
    latency_s: float


@dataclass(frozen=True)
class Advice:
    """What is best on a cluster.

    Attributes:
        shares: Of the network at the best staleness, for one device, for two...
        alone_s: The plain network on the best device.
        divided_s: The plain network as ``best`` divides it.
        divided_by: The axes of that plan.
    """

    architecture: Architecture
    needs: tuple[DeviceNeed, ...]
    services: tuple[Service, ...]
    shares: tuple[Share, ...]
    alone_s: float
    divided_s: float
    divided_by: tuple[str, ...]

    @property
    def best(self) -> Service:
        """The staleness with the least latency, the least one among equals."""
        return min(self.services, key=lambda service: service.latency_s)

    @property
    def is_plain_as_good(self) -> bool:
        """Whether the plain network, alone or divided, takes no longer, or groups lie together."""
        return self.divided_s <= AS_GOOD * self.best.latency_s or not self.is_best_divided

    @property
    def is_best_divided(self) -> bool:
        """Whether groups are fastest on more than one device."""
        return len(self.best.devices) > 1

    def words(self) -> list[str]:
        """The advice in sentences."""
        best, groups = self.best, self.architecture.groups
        if self.is_best_divided:
            lines = [f"Staleness {best.staleness} is fastest here: {1e3 * best.latency_s:.1f} ms on"
                     f" {len(best.devices)} devices.", self._hiding()]  # fmt: skip
        else:
            (device,) = best.devices
            lines = [f"The groups are fastest all on {device}: {1e3 * best.latency_s:.1f} ms."
                     " Messages cost more than others would compute."]  # fmt: skip
        how = " and ".join(self.divided_by)
        plain = f"the plain network {f'divided by {how}' if how else 'on one device'}"
        times = self.divided_s / best.latency_s
        if self.is_plain_as_good:
            lines.append(
                f"Do not retrain for speed: {plain} takes {1e3 * self.divided_s:.1f} ms,"
                f" {times:.2f} times as long as the one in {groups} groups."
            )
        else:
            lines.append(
                f"Retraining in {groups} groups gains: {plain} takes {1e3 * self.divided_s:.1f} ms,"
                f" {times:.2f} times as long, and alone {1e3 * self.alone_s:.1f} ms."
            )
        return lines

    def _hiding(self) -> str:
        """From which staleness on messages are hidden, of devices that have groups at the best."""
        hiding = [need.hiding for need in self.needs if need.device in self.best.devices]
        known = [staleness for staleness in hiding if staleness is not None]
        if len(known) < len(hiding):
            return "No staleness hides all transfers: some device waits for messages."
        return f"Transfers are hidden from staleness {max(known)} on."


def advise(
    cluster: Cluster,
    architecture: Architecture,
    make_cost: MakeCost,
    *,
    halves: bool = False,
    budget_s: float = 5.0,
    progress: Callable[[str], None] = lambda what: None,
) -> Advice:
    """The advice for a network in groups on a cluster.

    Every group is taken to send all it has in every window: policies that are found send less.

    Args:
        make_cost: Prices a graph on the cluster.
        budget_s: Seconds of the search that divides the plain network.
        progress: Told what comes next.

    Raises:
        InputError: The network is in one group, or the cluster has one device.
    """
    if architecture.groups < 2 or len(cluster.providers) < 2:
        raise InputError(
            f"Network {architecture} on {len(cluster.providers)} computing devices: there is"
            " nothing to place. Allowed are two groups and two devices, and more."
        )
    served, needs = list[tuple[Service, CostModel]](), tuple[DeviceNeed, ...]()
    for staleness in _stalenesses(architecture):
        progress(f"staleness {staleness}")
        policy = replace(rotating(architecture, staleness), halves=halves)
        cost = make_cost(load_graph(build_graph(architecture, policy), name=str(architecture)))
        needs = needs or _find_needs(cost, architecture, halves=halves)
        served.append((_serve(cost, architecture, policy, needs), cost))
    fastest = min(served, key=lambda pair: pair[0].latency_s)[1]
    progress("the plain network")
    plain = replace(architecture, groups=1)
    cost = make_cost(load_graph(build_graph(plain, silent(plain)), name=str(plain)))
    divided = find_plan(cost, options=PlanOptions(most_s=budget_s))
    axes = {str(stage.axis) for stage in divided.plan.stages} - {"none", "everywhere"}
    if not axes and len({one.device for stage in divided.plan.stages for one in stage.shards}) > 1:
        axes = {"whole layers"}
    return Advice(
        architecture=architecture,
        needs=needs,
        services=tuple(service for service, _ in served),
        shares=_share_out(fastest, architecture.groups),
        alone_s=find_plan(cost, planner="single").latency_s,
        divided_s=divided.latency_s,
        divided_by=tuple(sorted(axis.replace("_", " ") for axis in axes)),
    )


def _stalenesses(architecture: Architecture) -> list[int]:
    blocks = gcd(*architecture.stages)
    return [staleness for staleness in range(1, blocks + 1) if not blocks % staleness]


def _find_needs(
    cost: CostModel, architecture: Architecture, *, halves: bool
) -> tuple[DeviceNeed, ...]:
    ranges, cluster = Evaluator(cost, PlanOptions()).ranges, cost.cluster
    count, needs = len(cost.graph.layers), []
    found = requirements(architecture, halves=halves)
    for device in cluster.providers:
        speed = cost.graph.macs / ranges.work_s(0, count, device)
        link = _slowest_link(cluster, device)
        rate = 8 * _rate(link) if link else 0.0
        delay_s = link.latency_s + link.per_message_s if link else inf
        times = [(one.message_bits / rate + delay_s if rate else inf, one.macs / speed)
                 for one in found]  # fmt: skip
        message_s, block_s = max(times, key=lambda pair: pair[0] / pair[1])
        fitting = (s for s in _stalenesses(architecture) if s - 1 >= message_s / block_s)
        by_figure = least_staleness(architecture, speed, rate, halves=halves) if rate else None
        needs.append(DeviceNeed(device, speed, rate, message_s, block_s, by_figure,
                                next(fitting, None)))  # fmt: skip
    return tuple(needs)


def _slowest_link(cluster: Cluster, device: str) -> Link | None:
    """The slowest link from a device to others that compute; None where one is missing."""
    others = [other for other in cluster.providers if other != device]
    links = [cluster.link(device, other) for other in others]
    return None if None in links else min((one for one in links if one), key=_rate)


def _rate(link: Link) -> float:
    """Bytes per second, with what its ends' ports let through."""
    return min(link.bandwidth_at(0.0), *(port.bytes_per_s for port in link.ports), inf)


def _serve(
    cost: CostModel, architecture: Architecture, policy: Policy, needs: Sequence[DeviceNeed]
) -> Service:
    staleness, halves = policy.staleness, policy.halves
    placed = find_plan(cost, planner="branches")
    used = {shard.device for stage in placed.plan.stages for shard in stage.shards}
    fastest, slowest = max(n.macs_per_s for n in needs), min(n.bits_per_s for n in needs)
    return Service(
        staleness=staleness,
        least_bits_per_s=least_bits_per_s(architecture, fastest, staleness, halves=halves),
        most_macs_per_s=most_macs_per_s(architecture, slowest, staleness, halves=halves),
        byte_share=count_traffic(architecture, policy).byte_share,
        latency_s=placed.latency_s,
        devices=tuple(device for device in cost.cluster.names if device in used),
    )


def _share_out(cost: CostModel, groups: int) -> tuple[Share, ...]:
    evaluator, shares = Evaluator(cost, PlanOptions()), list[Share]()
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    fastest = tuple(sorted(evaluator.devices, key=lambda device: -speeds[device]))
    for count in range(1, 1 + min(groups, len(fastest))):
        draft = spread_parts(evaluator, fastest[:count])
        layout = cost.layout(evaluator.problem.plan(draft))
        account = account_layout(cost.graph, layout).devices.values()
        held = cost.memory(layout)
        shares.append(
            Share(
                devices=fastest[:count],
                macs=max(device.macs for device in account),
                weight_bytes=max(device.weight_bytes for device in account),
                memory_bytes=max(use.total for use in held.values()),
                latency_s=evaluator.latency_of(draft),
            )
        )
    return tuple(shares)
