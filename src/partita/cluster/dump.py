"""Writing a cluster back as a TOML file."""

from __future__ import annotations

import json

from partita.cluster.catalogue import UNMEASURED
from partita.cluster.model import Cluster, Device
from partita.execution import Link


def dump_cluster(cluster: Cluster) -> str:
    """The TOML text that :func:`~partita.cluster.load_cluster` reads as the same cluster.

    Bandwidth traces are files of their own and are left out.
    """
    head = [
        "[cluster]",
        f"name = {_quote(cluster.name)}",
        f"requester = {_quote(cluster.requester)}",
    ]
    devices = [_device_lines(device) for device in cluster.devices]
    links = [_link_lines(link) for link in cluster.links]
    return "\n\n".join("\n".join(part) for part in [head, *devices, *links, _lab_lines(cluster)])


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _device_lines(device: Device) -> list[str]:
    lines = ["[[device]]", f"name = {_quote(device.name)}"]
    if device.kind != UNMEASURED:
        lines.append(f"kind = {_quote(device.kind)}")
    if device.profile:
        lines.append(f"profile = {_quote(device.profile)}")
    lines += [f'memory = "{device.memory_bytes} B"', f"threads = {device.threads}"]
    if device.address:
        lines.append(f"address = {_quote(device.address)}")
    if not device.computes:
        lines.append("computes = false")
    rates = (("port", device.port_bytes_per_s), ("swap", device.swap_bytes_per_s))
    lines += [f'{key} = "{rate!r} B/s"' for key, rate in rates if rate is not None]
    precisions = ", ".join(_quote(item) for item in device.precisions)
    return [*lines, f"provider = {_quote(device.provider)}", f"precisions = [{precisions}]"]


def _link_lines(link: Link) -> list[str]:
    lines = [
        "[[link]]",
        f"from = {_quote(link.source)}",
        f"to = {_quote(link.target)}",
        f'bandwidth = "{link.bandwidth_bytes_per_s!r} B/s"',
        f'latency = "{link.latency_s!r} s"',
        f'per_message = "{link.per_message_s!r} s"',
    ]
    return [*lines, f"medium = {_quote(link.medium)}"] if link.medium else lines


def _lab_lines(cluster: Cluster) -> list[str]:
    factors = ", ".join(f"{_quote(d.name)} = {float(d.slow_down)!r}" for d in cluster.devices)
    return [
        "[lab]",
        f"slow_down = {{{factors}}}",
        f"seed = {cluster.lab.seed}",
        f"network = {_quote(cluster.lab.network)}\n",
    ]
