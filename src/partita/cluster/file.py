"""Reading the cluster file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from partita.cluster.array import read_array
from partita.cluster.catalogue import (
    OWN_ARRAY,
    THIS_MACHINE,
    UNMEASURED,
    catalogue_names,
    find_entry,
)
from partita.cluster.fields import (
    ANY,
    Field,
    address,
    endpoint,
    factor,
    list_of,
    list_tables,
    name,
    name_or_any,
    one_of,
    quantity,
    read_table,
    table_of,
    text,
    whole,
    yes_or_no,
)
from partita.cluster.link_tables import read_links
from partita.cluster.model import (
    Cluster,
    Device,
    LabSettings,
    Strangers,
    find_faults,
    raise_faults,
)
from partita.cluster.trace import BANDWIDTHS
from partita.errors import ClusterError
from partita.execution import Link
from partita.files import read_regular
from partita.naming import parse_address
from partita.scenarios import find_scenario, is_scenario

PRECISIONS = ("float32", "float16", "int8")
NETWORKS = ("user", "netns")
PROVIDERS = (
    "CPUExecutionProvider",
    "CUDAExecutionProvider",
    "TensorrtExecutionProvider",
    "OpenVINOExecutionProvider",
    "XnnpackExecutionProvider",
    "ACLExecutionProvider",
    "ArmNNExecutionProvider",
    "NnapiExecutionProvider",
    "QNNExecutionProvider",
    "CoreMLExecutionProvider",
    "DmlExecutionProvider",
    "MIGraphXExecutionProvider",
    "WebGpuExecutionProvider",
)

_KINDS = (*catalogue_names(), THIS_MACHINE, OWN_ARRAY)

_CLUSTER = {"name": Field(name), "requester": Field(text, required=True)}
_DEVICE = {
    "name": Field(name_or_any, required=True),
    "kind": Field(one_of(_KINDS)),
    "profile": Field(text),
    "memory": Field(quantity("bytes", "1 B", "1000000 GB")),
    "threads": Field(whole(1, 1024)),
    "address": Field(address),
    "provider": Field(one_of(PROVIDERS)),
    "precisions": Field(list_of(one_of(PRECISIONS))),
    "computes": Field(yes_or_no),
    "port": Field(quantity("bandwidth", *BANDWIDTHS)),
    "swap": Field(quantity("bandwidth", *BANDWIDTHS)),
    "array": Field(table_of),
    "endpoint": Field(endpoint),
}
_SECTIONS = ("cluster", "device", "link", "lab")
#: Of a device whose worker alone says what it has: the most that a file can say.
_UNTOLD_BYTES = 10**15


def _slow_down(value: object) -> dict[str, object]:
    """Factors by device, those of a table as they stand: each is checked by its own name."""
    return value if isinstance(value, dict) else {"*": factor(value)}


_LAB = {
    "slow_down": Field(_slow_down),
    "seed": Field(whole(0, 2**63 - 1)),
    "network": Field(one_of(NETWORKS)),
}


def load_cluster(source: str | Path | bytes | Mapping[str, Any]) -> Cluster:
    """The cluster that a TOML file describes.

    Args:
        source: Path of the file, ``scenario:NAME`` of a shipped one, the file's bytes, or its
            parsed content. Paths inside the file (profiles and traces) are relative to the file's
            folder, else to the current one.

    Raises:
        ClusterError: The file cannot be read, or breaks rules; all of them are listed with key.

    >>> load_cluster(b'''
    ... [cluster]
    ... requester = "camera"
    ... [[device]]
    ... name = "camera"
    ... kind = "raspberry-pi-4"
    ... ''').device("camera").threads
    4
    """
    subject, data, folder = _read(source)
    faults = [
        f"{key}: unknown section; allowed are {', '.join(_SECTIONS)}"
        for key in data
        if key not in _SECTIONS
    ]
    head = read_table(data.get("cluster", {}), _CLUSTER, "cluster", faults)
    lab = read_table(data.get("lab", {}), _LAB, "lab", faults)
    given = lab.get("slow_down", {})
    slow_down = read_table(given, dict.fromkeys(given, Field(factor)), "lab.slow_down", faults)
    entries = _read_devices(data.get("device", []), slow_down, folder, faults)
    faults += _unknown_faults(given, entries)
    names = list(dict.fromkeys(entry.name for entry in entries))
    links = read_links(data.get("link", []), names, folder, faults)
    devices = tuple(entry for entry in entries if entry.name != ANY)
    cluster = Cluster(
        name=head.get("name", "cluster"),
        requester=head.get("requester", devices[0].name if devices else ""),
        devices=devices,
        links=tuple(link for link in links if ANY not in link.pair),
        lab=LabSettings(lab.get("seed", 0), lab.get("network", "user")),
        strangers=_find_strangers(entries, links, faults),
    )
    faults += find_faults(cluster)
    raise_faults(subject, faults)
    return cluster


def _read(source: str | Path | bytes | Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Path]:
    """A name for messages, the parsed content, and the folder of relative paths."""
    if isinstance(source, Mapping):
        return "Cluster description", source, Path()
    if isinstance(source, bytes):
        return "Cluster description", _parse("Cluster description", source), Path()
    path = find_scenario(source) if is_scenario(source) else Path(source)
    subject = f"Cluster file {str(path)!r}"
    try:
        content = read_regular(path)
    except OSError as error:
        message = f"{subject} cannot be read: {error.strerror}. Give the path of a TOML file."
        raise ClusterError(message, subject=str(path)) from error
    return subject, _parse(subject, content), path.parent


def _parse(subject: str, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{subject} is not TOML: {error}.", subject=subject) from error


def _read_devices(
    tables: object, slow_down: Mapping[str, float], folder: Path, faults: list[str]
) -> tuple[Device, ...]:
    devices = []
    for where, table in list_tables(tables, "device", faults):
        values = read_table(table, _DEVICE, where, faults)
        if isinstance(table, dict):
            _check_device(table, where, faults)
            if isinstance(table.get("name"), str):  # a wrong one, too: others may refer to it
                values["name"] = table["name"]
        if "array" in values:
            values["array"] = read_array(values["array"], f"{where}.array", faults)
        if "name" in values:
            values["slow_down"] = slow_down.get(values["name"], slow_down.get("*", 1.0))
            devices.append(_make_device(values, folder))
    faults += _address_faults(devices)
    return tuple(devices)


def _find_strangers(
    entries: Iterable[Device], links: Iterable[Link], faults: list[str]
) -> Strangers | None:
    """What the entry called ``*`` says of devices that have none."""
    found = [entry for entry in entries if entry.name == ANY]
    if len(found) > 1:
        faults.append(f"device: name {ANY!r} is used {len(found)} times, allowed once")
    own = tuple(link for link in links if ANY in link.pair)
    return Strangers(found[0], own) if found else None


def _unknown_faults(slow_down: Iterable[str], devices: Iterable[Device]) -> list[str]:
    names = [name for name in dict.fromkeys(d.name for d in devices) if name != ANY]
    return [
        f"lab.slow_down.{name}: {name!r} is not a device; devices are {', '.join(names)}"
        for name in slow_down
        if name not in (*names, ANY)
    ]


def _check_device(table: Mapping[str, object], where: str, faults: list[str]) -> None:
    """What is missing, whatever is wrong with what is there."""
    if table.get("name") == ANY:
        faults += [
            f"{where}.{key}: is one device's own, {ANY!r} stands for many"
            for key in ("address", "endpoint")
            if key in table
        ]
        if not table.keys() & {"kind", "profile", "array"}:
            return  # measured when it comes, and its worker says what it gives away
    if not table.keys() & {"kind", "profile", "address", "array"}:
        kinds = ", ".join(_KINDS)
        faults.append(
            f"{where}: needs kind, profile, array or a worker's address; kinds are {kinds}"
        )
    elif table.get("kind", THIS_MACHINE) in (THIS_MACHINE, OWN_ARRAY) and "memory" not in table:
        faults.append(f"{where}.memory: missing; only kinds of the catalogue have a default")
    if table.get("kind") == OWN_ARRAY and "array" not in table:
        faults.append(f"{where}.array: missing; kind {OWN_ARRAY!r} has no default")


def _address_faults(devices: Iterable[Device]) -> list[str]:
    """A fault for each device whose data or control port (one above) is another's."""
    owners: dict[tuple[str, int], str] = {}
    faults = []
    for device in devices:
        address = parse_address(device.address or "")
        if address is None:
            continue
        places = [(address.host.lower(), port) for port in (address.port, address.port + 1)]
        taken = [owners[place] for place in places if place in owners]
        if taken:
            faults.append(
                f"device {device.name!r} address: {device.address!r} shares a port with device "
                f"{taken[0]!r}; each takes its port and the one above"
            )
        owners |= dict.fromkeys(places, device.name)
    return faults


def _make_device(values: Mapping[str, Any], folder: Path) -> Device:
    profile = values.get("profile")
    undescribed = OWN_ARRAY if "array" in values else UNMEASURED
    kind = values.get("kind", THIS_MACHINE if profile else undescribed)
    entry = None if kind in (THIS_MACHINE, UNMEASURED, OWN_ARRAY) else find_entry(kind)
    return Device(
        name=values["name"],
        kind=kind,
        profile=str(folder / profile) if profile else None,
        memory_bytes=int(values.get("memory", entry.memory_bytes if entry else _UNTOLD_BYTES)),
        threads=values.get("threads", entry.cores if entry else 1),
        address=values.get("address"),
        provider=values.get("provider", "CPUExecutionProvider"),
        precisions=values.get("precisions", entry.precisions if entry else ("float32",)),
        slow_down=values["slow_down"],
        computes=values.get("computes", True),
        port_bytes_per_s=values.get("port", entry.port_bytes_per_s if entry else None),
        swap_bytes_per_s=values.get("swap", entry.swap_bytes_per_s if entry else None),
        array=values.get("array"),
        endpoint=values.get("endpoint"),
    )
