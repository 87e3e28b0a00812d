"""Changes of a cluster, or of how tensors travel, that one may think of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from math import ceil

from partita.cluster import Cluster, Device, as_kind, catalogue_names, copy_device
from partita.cost import CostModel, grow_cost
from partita.errors import ClusterError
from partita.execution import Link
from partita.execution.durations import Pair
from partita.planners.options import PlanOptions
from partita.regions import read_format
from partita.units import format_bandwidth, format_bytes

#: Tried where nothing is named: half and a quarter of a float's bytes. What compresses without loss
#: needs samples.
_USUAL_FORMATS = ("float16", "uint8")
#: How many times as fast links are thought of.
FASTER = 2.0


@dataclass(frozen=True)
class Variation:
    """A change that is thought of.

    Attributes:
        name: What it is, for people.
        cost: What everything costs with it.
        options: What is asked of the planner with it.
        is_exact: Whether answers stay the network's.
    """

    name: str
    cost: CostModel
    options: PlanOptions
    is_exact: bool = True


#: Makes a change of how things are.
Change = Callable[[CostModel, PlanOptions], Variation]


def usual_variations(cost: CostModel, options: PlanOptions) -> list[Variation]:
    """One more of each kind that has links, all links twice as fast, and tensors of fewer bits."""
    linked = {name for link in cost.cluster.links for name in link.pair}
    boards = list_boards(cost.cluster).items()
    return [
        *(add_devices(cost, options, kind, 1) for kind, board in boards if board.name in linked),
        *([speed_links(cost, options, factor=FASTER)] if linked else []),
        *(compress(cost, options, wire) for wire in _USUAL_FORMATS if wire != options.compress),
    ]


def list_boards(cluster: Cluster) -> dict[str, Device]:
    """One device for each kind that computes, by the kind, or by its own name where kinds differ.

    Those of one kind differ where they have other profiles, or are emulated as slower.
    """
    boards: dict[tuple[object, ...], Device] = {}
    for name in cluster.providers:
        device = cluster.device(name)
        boards.setdefault(_sort_of(device), device)
    kinds = [device.kind for device in boards.values()]
    return {
        device.kind if kinds.count(device.kind) == 1 else device.name: device
        for device in boards.values()
    }


def name_board(cluster: Cluster, name: str) -> str:
    """What :func:`list_boards` calls devices like one."""
    own = _sort_of(cluster.device(name))
    return next((k for k, one in list_boards(cluster).items() if _sort_of(one) == own), name)


def _sort_of(device: Device) -> tuple[object, ...]:
    return device.kind, device.profile, device.slow_down


def add_devices(cost: CostModel, options: PlanOptions, kind: str, more: int) -> Variation:
    """So many more devices; where throughput counts, with as many more requests in flight.

    Args:
        kind: That of a device which is there, its name, or one of the catalogue: its links are then
            those of the first device that computes, of another than the requester if there is one.

    Raises:
        ClusterError: Nothing is known by that name, or there is no link for one more.
    """
    cluster = cost.cluster
    like = _find_like(cluster, kind)
    stem = kind if like is None else like.name
    pattern = like or _usual_device(cluster)
    if not any(pattern.name in link.pair for link in cluster.links):
        raise ClusterError(
            f"One more {kind!r} would have no links: device {pattern.name!r}, whose links it would"
            " have, has none. Add one more to the cluster file by hand.",
            subject=kind,
        )
    numbered = (f"{stem}-{number}" for number in count(2))
    names = list(islice((name for name in numbered if name not in cluster.names), more))
    grown = copy_device(cluster, pattern.name, names)
    for name in names if like is None else ():
        grown = as_kind(grown, name, kind)
    model = grow_cost(cost, grown, {} if like is None else dict.fromkeys(names, pattern.name))
    if options.objective == "throughput":
        before = len(cluster.providers)
        options = replace(options, in_flight=ceil(options.in_flight * (before + more) / before))
    if options.devices is not None:
        options = replace(options, devices=(*options.devices, *names))
    return Variation(name_more(kind, more), model, options)


def name_more(kind: str, more: int = 1) -> str:
    """What :func:`add_devices` calls a change."""
    return f"{'one' if more == 1 else more} more {kind}"


def _find_like(cluster: Cluster, kind: str) -> Device | None:
    """The device that one more is like; None where only the catalogue knows the kind."""
    named = next((device for device in cluster.devices if device.name == kind), None)
    found = named or list_boards(cluster).get(kind)
    if found is None and kind not in catalogue_names():
        known = dict.fromkeys([*list_boards(cluster), *cluster.names, *catalogue_names()])
        raise ClusterError(
            f"Nothing is known of kind {kind!r}: known are {', '.join(known)}.", subject=kind
        )
    return found


def _usual_device(cluster: Cluster) -> Device:
    others = (name for name in cluster.providers if name != cluster.requester)
    return cluster.device(next(others, cluster.providers[0]))


def speed_links(
    cost: CostModel,
    options: PlanOptions,
    *,
    bytes_per_s: float | None = None,
    factor: float = 1.0,
    pair: Pair | None = None,
) -> Variation:
    """Faster links, and ports of their devices that are no slower.

    Args:
        bytes_per_s: The rate of each; None multiplies their own, also where it changes.
        factor: By so much.
        pair: The devices between which links change, in both directions; None changes all.

    Raises:
        ClusterError: There is no link between the two.
    """
    cluster = cost.cluster
    ends = None if pair is None else frozenset(pair)
    if ends is not None and not any(frozenset(link.pair) == ends for link in cluster.links):
        raise ClusterError(
            f"There is no link between {' and '.join(map(repr, pair or ()))} in cluster"
            f" {cluster.name!r}.",
            subject=":".join(pair or ()),
        )

    def change(rate: float) -> float:
        return rate * factor if bytes_per_s is None else bytes_per_s

    def speed(link: Link) -> Link:
        if ends is not None and frozenset(link.pair) != ends:
            return link
        if bytes_per_s is not None:
            return link.at_rate(bytes_per_s)
        trace = tuple((at_s, change(rate)) for at_s, rate in link.trace)
        return replace(link, bandwidth_bytes_per_s=change(link.bandwidth_bytes_per_s), trace=trace)

    devices = tuple(
        replace(device, port_bytes_per_s=max(port, change(port)))
        if (port := device.port_bytes_per_s) and (ends is None or device.name in ends)
        else device
        for device in cluster.devices
    )
    changed = replace(cluster, devices=devices, links=tuple(map(speed, cluster.links)))
    name = name_faster(factor, bytes_per_s, pair)
    return Variation(name, grow_cost(cost, changed, {}), options)


def name_faster(
    factor: float = 1.0, bytes_per_s: float | None = None, pair: Pair | None = None
) -> str:
    """What :func:`speed_links` calls a change."""
    which = "every link" if pair is None else f"link {pair[0]} - {pair[1]}"
    rate = f"{factor:g}x as fast" if bytes_per_s is None else f"at {format_bandwidth(bytes_per_s)}"
    return f"{which} {rate}"


def give_memory(
    cost: CostModel,
    options: PlanOptions,
    *,
    memory_bytes: int | None = None,
    factor: float = 1.0,
    device: str | None = None,
) -> Variation:
    """Other memory of one device, or of all that compute.

    Args:
        memory_bytes: Of each; None multiplies its own.
        factor: By so much.

    Raises:
        ClusterError: There is no such device.
    """
    cluster = cost.cluster
    for name in cluster.providers if device is None else (device,):
        own = cluster.device(name).memory_bytes
        cluster = cluster.with_memory(name, memory_bytes or int(own * factor))
    amount = format_bytes(memory_bytes) if memory_bytes else f"{factor:g}x the"
    which = device or "each device"
    return Variation(f"{amount} memory for {which}", grow_cost(cost, cluster, {}), options)


def compress(cost: CostModel, options: PlanOptions, wire: str) -> Variation:
    """Tensors that may travel in a format where it is faster."""
    is_exact = read_format(wire).is_exact
    name = f"tensors as {wire}{'' if is_exact else ' (not exact)'}"
    return Variation(name, cost, replace(options, compress=wire), is_exact)


def combine(cost: CostModel, options: PlanOptions, changes: Sequence[Change]) -> Variation:
    """Several changes at once, each made after the one before."""
    names, is_exact = [], True
    for change in changes:
        made = change(cost, options)
        cost, options = made.cost, made.options
        names.append(made.name)
        is_exact &= made.is_exact
    return Variation(" and ".join(names), cost, options, is_exact)
