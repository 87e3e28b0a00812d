"""Writing a cluster back as a TOML file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from partita.cluster.array import write_array
from partita.cluster.catalogue import UNMEASURED
from partita.cluster.fields import ANY
from partita.cluster.model import Cluster, Device
from partita.execution import Link
from partita.units import write_quantity

_SIZES = ("GB", "GiB", "MB", "MiB", "kB", "KiB", "B")
_TIMES = ("s", "ms", "us")
#: Networks are rated in bits, memory that is brought in in bytes.
_BIT_RATES = ("Gbit/s", "Mbit/s", "kbit/s", "bit/s")
_RATES = ("GB/s", "MB/s", "kB/s", "B/s")


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
    if cluster.strangers is not None:
        devices.append(_device_lines(cluster.strangers.device))
        # Theirs first: their ends stand for all devices, whose own links then say otherwise.
        # Among them what stands for all of them first.
        own = sorted(cluster.strangers.links, key=lambda link: link.pair != (ANY, ANY))
        everyone = (*own, *cluster.links)
        links = [_link_lines(link, all_keys=True) for link in everyone]
    return "\n\n".join("\n".join(part) for part in [head, *devices, *links, _lab_lines(cluster)])


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _device_lines(device: Device) -> list[str]:
    lines = ["[[device]]", f"name = {_quote(device.name)}"]
    if device.kind != UNMEASURED:
        lines.append(f"kind = {_quote(device.kind)}")
    if device.profile:
        lines.append(f"profile = {_quote(device.profile)}")
    if (device.name, device.kind) != (ANY, UNMEASURED):  # else its worker says
        memory = write_quantity(device.memory_bytes, "bytes", _SIZES)
        lines.append(f"memory = {_quote(memory)}")
    lines.append(f"threads = {device.threads}")
    if device.address:
        lines.append(f"address = {_quote(device.address)}")
    if device.endpoint:
        lines.append(f"endpoint = {_quote(device.endpoint)}")
    if not device.computes:
        lines.append("computes = false")
    rates = (
        ("port", device.port_bytes_per_s, _BIT_RATES),
        ("swap", device.swap_bytes_per_s, _RATES),
    )
    lines += [
        f"{key} = {_quote(write_quantity(rate, 'bandwidth', units))}"
        for key, rate, units in rates
        if rate is not None
    ]
    if device.array is not None:
        array = ", ".join(f"{key} = {value}" for key, value in write_array(device.array).items())
        lines.append(f"array = {{ {array} }}")
    precisions = ", ".join(_quote(item) for item in device.precisions)
    return [*lines, f"provider = {_quote(device.provider)}", f"precisions = [{precisions}]"]


def dump_links(links: Iterable[Link], ports: Mapping[str, float]) -> str:
    """Links as ``[[link]]`` tables of a cluster file.

    Args:
        ports: Per device, the rate of its port in bytes per second. They belong to the devices'
            own tables: here they are comments.
    """
    tables = ["\n".join(_link_lines(link)) for link in links]
    if ports:
        lines = (
            f"# {name}: port = {_quote(write_quantity(rate, 'bandwidth', _BIT_RATES))}"
            for name, rate in ports.items()
        )
        tables.append("\n".join(["# For the tables of these devices:", *lines]))
    return "\n\n".join(tables) + "\n"


def _link_lines(link: Link, *, all_keys: bool = False) -> list[str]:
    bandwidth = write_quantity(link.bandwidth_bytes_per_s, "bandwidth", _BIT_RATES)
    lines = [
        "[[link]]",
        f"from = {_quote(link.source)}",
        f"to = {_quote(link.target)}",
        f"bandwidth = {_quote(bandwidth)}",
        f"latency = {_quote(write_quantity(link.latency_s, 'time', _TIMES))}",
    ]
    if link.per_message_s or all_keys:
        per_message = write_quantity(link.per_message_s, "time", _TIMES)
        lines.append(f"per_message = {_quote(per_message)}")
    return [*lines, f"medium = {_quote(link.medium)}"] if link.medium else lines


def _lab_lines(cluster: Cluster) -> list[str]:
    factors = ", ".join(f"{_quote(d.name)} = {float(d.slow_down)!r}" for d in cluster.entries)
    return [
        "[lab]",
        f"slow_down = {{{factors}}}",
        f"seed = {cluster.lab.seed}",
        f"network = {_quote(cluster.lab.network)}\n",
    ]
