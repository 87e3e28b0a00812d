"""Devices, links and emulation settings as frozen data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from math import inf

from partita.cluster.array import Array
from partita.cluster.fields import ANY
from partita.errors import ClusterError
from partita.execution import Link, Port

#: Which device or link a fault is of, as it begins: by its number in the file, or by name.
_PLACE = re.compile(r"(device|link)(\[\d+\]| '[^']*'(?: -> '[^']*')?)")
#: Further places that a message names where one rule is broken. Not tuned.
_MOST_NAMED = 4


@dataclass(frozen=True)
class Device:
    """One machine.

    Attributes:
        kind: A name of the catalogue, or ``this-machine`` where only its profile is known,
            ``systolic-array`` where its ``array`` is, ``unmeasured`` where nothing is.
        memory_bytes: What weights and live pieces together may take.
        address: Zenoh locator, only where discovery does not reach.
        provider: ONNX Runtime's execution provider.
        precisions: Number formats that the device computes in.
        slow_down: Emulated slowness, at least 1: multiples of this machine's time.
        computes: Whether planners may place layers on it; a requester may only ask.
        port_bytes_per_s: Rate of its interface in each direction, which all its messages share;
            None for as much as its links carry together.
        swap_bytes_per_s: Rate at which it brings in what its memory does not hold, for plans that
            may swap; None where it cannot.
        array: The systolic array that it is, where its kind does not say.
        endpoint: URL of the model that computes its part of plans, served elsewhere.
    """

    name: str
    kind: str = "this-machine"
    profile: str | None = None
    memory_bytes: int = 4_000_000_000
    threads: int = 1
    address: str | None = None
    provider: str = "CPUExecutionProvider"
    precisions: tuple[str, ...] = ("float32",)
    slow_down: float = 1.0
    computes: bool = True
    port_bytes_per_s: float | None = None
    swap_bytes_per_s: float | None = None
    array: Array | None = None
    endpoint: str | None = None

    def limit_bytes(self, *, swap: bool) -> float:
        """The most that plans may have it hold: infinite where they may swap and it can."""
        return inf if swap and self.swap_bytes_per_s is not None else self.memory_bytes


@dataclass(frozen=True)
class Strangers:
    """Devices that may come though nothing names them.

    Attributes:
        device: What each of them is taken for; it is called ``*``.
        links: To and from the devices that are named, and from one stranger to another; the ends
            that are strangers are called ``*``.
    """

    device: Device
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class LabSettings:
    """How ``partita lab`` emulates the cluster.

    Attributes:
        network: ``user`` shapes links inside the processes; ``netns`` uses network namespaces.
    """

    seed: int = 0
    network: str = "user"


@dataclass(frozen=True)
class Cluster:
    """Devices, the links between them, and where inputs come from.

    Attributes:
        requester: Device that has the inputs and wants the outputs.
        links: At most one per ordered pair of devices; a missing pair cannot talk. Each knows the
            ports of its devices, whatever it was given.
        strangers: None where none may come.
    """

    name: str
    requester: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    lab: LabSettings = field(default_factory=LabSettings)
    strangers: Strangers | None = None

    def __post_init__(self) -> None:
        """Tell the links of the ports that they pass."""
        rates = {device.name: device.port_bytes_per_s for device in self.devices}
        links = tuple(
            link if link.ports == ports else replace(link, ports=ports)
            for link in self.links
            for ports in [_ports(link, rates)]
        )
        object.__setattr__(self, "links", links)

    @classmethod
    def of(
        cls,
        devices: Iterable[Device | str],
        *,
        requester: str | None = None,
        links: Iterable[Link] | None = None,
        bandwidth_bytes_per_s: float = 25e6,
        latency_s: float = 0.002,
    ) -> Cluster:
        """A cluster from parts in memory.

        Args:
            devices: Devices, or names of devices that are this machine.
            requester: Name of the requester; the first device by default.
            links: All links; by default every pair has one of the given bandwidth and latency.
            bandwidth_bytes_per_s: Of the default links.
            latency_s: Of the default links, one way.

        Raises:
            ClusterError: A name is doubled or unknown, or a number is out of range.

        >>> Cluster.of(["camera", "box"]).link("camera", "box").latency_s
        0.002
        """
        listed = tuple(Device(item) if isinstance(item, str) else item for item in devices)
        if links is None:
            pairs = permutations([device.name for device in listed], 2)
            links = [Link(a, b, bandwidth_bytes_per_s, latency_s) for a, b in pairs]
        first = listed[0].name if listed else ""
        cluster = cls("cluster", requester or first, listed, tuple(links))
        raise_faults("Cluster", find_faults(cluster))
        return cluster

    @cached_property
    def _devices(self) -> dict[str, Device]:
        return {device.name: device for device in self.devices}

    @cached_property
    def link_map(self) -> dict[tuple[str, str], Link]:
        """The links by their ends."""
        return {link.pair: link for link in self.links}

    @property
    def entries(self) -> tuple[Device, ...]:
        """The devices, and what strangers are taken for where they may come."""
        return self.devices if self.strangers is None else (*self.devices, self.strangers.device)

    @property
    def names(self) -> tuple[str, ...]:
        """Device names in the file's order."""
        return tuple(device.name for device in self.devices)

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the devices that compute, in the file's order."""
        return tuple(device.name for device in self.devices if device.computes)

    def device(self, name: str) -> Device:
        """The device called ``name``.

        Raises:
            ClusterError: There is none; the message lists those that exist.
        """
        device = self._devices.get(name)
        if device is None:
            known = ", ".join(self.names)
            message = f"Device {name!r} is not in cluster {self.name!r}: known are {known}."
            raise ClusterError(message, subject=name)
        return device

    def link(self, source: str, target: str) -> Link | None:
        """The link from ``source`` to ``target``; None for one device or no link."""
        return self.link_map.get((source, target))

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the structure: names, kinds, requester, which links exist, and media."""
        structure = [
            self.requester,
            sorted((device.name, device.kind) for device in self.devices),
            sorted((link.source, link.target, link.medium or "") for link in self.links),
        ]
        return hashlib.sha256(json.dumps(structure).encode()).hexdigest()

    def with_stranger(self, name: str, memory_bytes: int = 0) -> Cluster:
        """The cluster with a stranger among its devices.

        Args:
            memory_bytes: What its worker gives away, if that is told; the entry may give less.

        Raises:
            ClusterError: No strangers may come, or there is a device of that name.
        """
        if self.strangers is None or name in self.names:
            why = "is there" if name in self.names else "is in no entry of its file, nor is '*'"
            raise ClusterError(
                f"Device {name!r} cannot join cluster {self.name!r}: it {why}.", subject=name
            )
        entry = self.strangers.device
        most = min(entry.memory_bytes, memory_bytes or entry.memory_bytes)
        rules = {link.pair: link for link in self.strangers.links}
        links = list(self.links)
        for other in self.names:
            for ends, rule in (((name, other), (ANY, other)), ((other, name), (other, ANY))):
                link = rules.get(rule) or rules.get((ANY, ANY))  # of another stranger
                if link is not None:
                    links.append(replace(link, source=ends[0], target=ends[1]))
        devices = (*self.devices, replace(entry, name=name, memory_bytes=most))
        return replace(self, devices=devices, links=tuple(links))

    def without(self, *names: str) -> Cluster:
        """The cluster without the named devices and their links."""
        return replace(
            self,
            devices=tuple(device for device in self.devices if device.name not in names),
            links=tuple(
                link for link in self.links if link.source not in names and link.target not in names
            ),
        )

    def without_links(self, *pairs: tuple[str, str]) -> Cluster:
        """The cluster without the links between the devices of each pair, in both directions."""
        cut = {frozenset(pair) for pair in pairs}
        kept = tuple(link for link in self.links if frozenset(link.pair) not in cut)
        return replace(self, links=kept)

    def overflow_bytes(self, used: Mapping[str, int], *, swap: bool) -> dict[str, int]:
        """What devices lack of what plans would have them hold, by those that lack something.

        Args:
            used: Bytes by device.
            swap: Whether those that can swap may hold more than their memory.
        """
        return {
            name: size - self.device(name).memory_bytes
            for name, size in used.items()
            if size > self.device(name).limit_bytes(swap=swap)
        }

    def with_memory(self, name: str, memory_bytes: int) -> Cluster:
        """The cluster with another memory of one device."""
        devices = (
            replace(device, memory_bytes=memory_bytes) if device.name == name else device
            for device in self.devices
        )
        return replace(self, devices=tuple(devices))

    def with_time_scale(self, factor: float) -> Cluster:
        """The cluster whose traces run ``factor`` times as fast."""
        links = [
            replace(link, trace=tuple((time_s / factor, rate) for time_s, rate in link.trace))
            for link in self.links
        ]
        return replace(self, links=tuple(links))

    def with_bandwidth(self, bytes_per_s: Mapping[tuple[str, str], float]) -> Cluster:
        """The cluster with other constant bandwidths for the given ordered pairs."""
        links = [
            link.at_rate(bytes_per_s[link.pair]) if link.pair in bytes_per_s else link
            for link in self.links
        ]
        return replace(self, links=tuple(links))


def _ports(link: Link, rates: Mapping[str, float | None]) -> tuple[Port, ...]:
    named = ((f"{link.source} out", link.source), (f"{link.target} in", link.target))
    return tuple(
        Port(name, bytes_per_s)
        for name, device in named
        if (bytes_per_s := rates.get(device)) is not None
    )


def find_faults(cluster: Cluster) -> list[str]:
    """Every rule that the cluster breaks as a whole, as ``key: what is wrong``."""
    names = cluster.names
    known = ", ".join(dict.fromkeys(names))
    faults = [] if names else ["device: a cluster needs at least one device"]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"device: name {name!r} is used {names.count(name)} times, allowed once")
    if names and cluster.requester not in names:
        faults.append(
            f"cluster.requester: {cluster.requester!r} is not a device; devices are {known}"
        )
    if names and not any(device.computes for device in cluster.devices):
        faults.append("device: no device computes; leave out computes = false of one")
    for device in cluster.entries:
        faults += _device_faults(device)
    links = cluster.links
    if cluster.strangers is not None:
        links += cluster.strangers.links
        names += (ANY,)
    for link in links:
        faults += _link_faults(link, names)
    return faults


def _device_faults(device: Device) -> list[str]:
    where = f"device {device.name!r}"
    faults = []
    if device.memory_bytes <= 0:
        faults.append(f"{where} memory: {device.memory_bytes} B, must be above 0 B")
    if device.threads < 1:
        faults.append(f"{where} threads: {device.threads}, must be at least 1")
    for what, rate in (("port", device.port_bytes_per_s), ("swap", device.swap_bytes_per_s)):
        if rate is not None and not rate > 0:
            faults.append(f"{where} {what}: {rate:g} B/s, must be above 0 B/s")
    if not device.slow_down >= 1:
        faults.append(f"{where} slow_down: {device.slow_down:g}, must be at least 1")
    return faults


def _link_faults(link: Link, names: Sequence[str]) -> list[str]:
    where = f"link {link.source!r} -> {link.target!r}"
    faults = [
        f"{where}: {name!r} is not a device; devices are {', '.join(names)}"
        for name in (link.source, link.target)
        if name not in names
    ]
    if not link.bandwidth_bytes_per_s > 0:
        faults.append(f"{where} bandwidth: {link.bandwidth_bytes_per_s:g} B/s, must be above 0")
    if link.latency_s < 0 or link.per_message_s < 0:
        faults.append(f"{where} latency and per_message: must not be below 0 s")
    return faults


def raise_faults(subject: str, faults: Sequence[str]) -> None:
    """Raise one ClusterError that lists all ``faults``; do nothing when there are none.

    A rule that many devices or links break in the same way is told once.
    """
    if faults:
        told = _gather(faults)
        rules = "1 rule" if len(told) == 1 else f"{len(told)} rules"
        raise ClusterError(f"{subject} breaks {rules}: {'; '.join(told)}.", subject=subject)


def _gather(faults: Sequence[str]) -> list[str]:
    """The faults, those that differ in their device or link alone as one, at the first of them."""
    places: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        found = _PLACE.match(fault)
        kind, place = found.groups() if found else ("", "")
        places.setdefault((kind, fault[len(kind + place) :]), []).append(kind + place)
    return [_name_others(f"{at[0]}{rule}", at[1:]) for (_, rule), at in places.items()]


def _name_others(fault: str, others: Sequence[str]) -> str:
    """A fault with the other places that it is at, the first few by name."""
    more = len(others) - _MOST_NAMED
    named = [*others[:_MOST_NAMED], *([f"{more} more"] if more > 0 else ())]
    return f"{fault} (and so for {', '.join(named)})" if named else fault
