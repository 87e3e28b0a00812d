"""A cost model under other conditions: rates of links and speeds of devices as measured."""

from __future__ import annotations

from collections.abc import Mapping

from partita.cluster import Cluster
from partita.cost.model import ANY_DEVICE, CostModel
from partita.execution import Conditions
from partita.execution.durations import Pair
from partita.profile import Profile


def update_cost(cost: CostModel, belief: Conditions) -> CostModel:
    """A cost model with other constant rates and speeds; all else is shared with ``cost``.

    Args:
        belief: Rates of links, constant from now on, and slowness of devices compared with the
            profiles of ``cost``. What it does not name stays as it is.
    """
    updated = cost.on(cost.cluster.with_bandwidth(belief.rates))
    updated.devices = {
        name: device.slowed(device.facts.slow_down * belief.slowness.get(name, 1.0))
        for name, device in cost.devices.items()
    }
    return updated


def grow_cost(cost: CostModel, cluster: Cluster, like: Mapping[str, str]) -> CostModel:
    """The cost model of a cluster that has copies of devices beside the others, or some of them.

    Args:
        cluster: Its devices are those of ``cost``, and the copies.
        like: By the name of a copy, the device that it is as fast as, profile and all.
    """
    profiles = cost.profiles
    if isinstance(profiles, Mapping):
        given = {name: profiles[old] for name, old in like.items() if old in profiles}
        profiles = {**profiles, **given}
    grown = CostModel(
        cost.graph, cluster, estimator=cost.estimator, profiles=profiles, options=cost.options
    )
    slow_down = {name: device.facts.slow_down for name, device in cost.devices.items()}
    grown.devices = {
        name: device.slowed(slow_down.get(like.get(name, name), device.facts.slow_down))
        for name, device in grown.devices.items()
    }
    return grown


def extend_cost(
    cost: CostModel, cluster: Cluster, device: str, profile: Profile | None = None
) -> CostModel:
    """The cost model of a cluster that has one device more.

    Args:
        cluster: The devices of ``cost``, and that one.
        profile: Of the device; None where the cluster says what it is priced by.
    """
    grown = cost.on(cluster)
    if profile is not None:
        given = cost.profiles or {}
        known = {ANY_DEVICE: given} if isinstance(given, Profile) else given
        grown.profiles = {**known, device: profile}
    grown.devices = {**cost.devices, device: grown.price_device(cluster.device(device))}
    return grown


def cost_of_rest(cost: CostModel, rest: Cluster) -> CostModel:
    """The same model of a part of its cluster's devices and links."""
    other = cost.on(rest)
    other.devices = {name: cost.devices[name] for name in rest.names}
    return other


def rates_at(cost: CostModel, time_s: float) -> Mapping[Pair, float]:
    """The rate of each link in bytes per second, ``time_s`` after the traces began."""
    return {link.pair: link.bandwidth_at(time_s) for link in cost.cluster.links}
