"""Devices like one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from partita.cluster.catalogue import find_entry
from partita.cluster.model import Cluster
from partita.errors import ClusterError
from partita.execution import Link


def copy_device(cluster: Cluster, name: str, copies: Sequence[str]) -> Cluster:
    """The cluster with more devices like one of its own, at addresses that nobody knows.

    Each has links like that device's to all others. Between it, and among the copies, they are like
    its link to the requester, or else like any of its links.

    Raises:
        ClusterError: There is no such device, or the name of a copy is taken.
    """
    device, links = cluster.device(name), list(cluster.links)
    between = _usual_link(cluster, name)
    known = [name]
    for copy in copies:
        if copy in (*cluster.names, *known):
            raise ClusterError(
                f"Device {copy!r} cannot be added to cluster {cluster.name!r}: it is there.",
                subject=copy,
            )
        for link in cluster.links:
            if link.source == name:
                links.append(replace(link, source=copy))
            elif link.target == name:
                links.append(replace(link, target=copy))
        if between is not None:
            pairs = [pair for other in known for pair in ((other, copy), (copy, other))]
            links += [replace(between, source=a, target=b) for a, b in pairs]
        known.append(copy)
    added = (replace(device, name=copy, address=None) for copy in copies)
    return replace(cluster, devices=(*cluster.devices, *added), links=tuple(links))


def _usual_link(cluster: Cluster, name: str) -> Link | None:
    """A device's link to the requester, in either direction, or else any that leaves it."""
    home = cluster.requester
    either = cluster.link(name, home) or cluster.link(home, name)
    return either or next((link for link in cluster.links if link.source == name), None)


def as_kind(cluster: Cluster, name: str, kind: str) -> Cluster:
    """The cluster where one device is of a kind of the catalogue, with what that says of it.

    Raises:
        ClusterError: There is no such device, or no such kind.
    """
    entry = find_entry(kind)
    changed = replace(
        cluster.device(name),
        kind=kind,
        profile=None,
        array=None,
        slow_down=1.0,
        computes=True,
        memory_bytes=entry.memory_bytes,
        threads=entry.cores,
        precisions=entry.precisions,
        swap_bytes_per_s=entry.swap_bytes_per_s,
    )
    devices = (changed if device.name == name else device for device in cluster.devices)
    return replace(cluster, devices=tuple(devices))
