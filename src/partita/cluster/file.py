"""Reading the cluster file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from itertools import permutations
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
    Field,
    address,
    endpoint,
    factor,
    list_of,
    name,
    one_of,
    quantity,
    read_table,
    table_of,
    text,
    whole,
    yes_or_no,
)
from partita.cluster.link_kinds import load_link_kinds
from partita.cluster.model import (
    Cluster,
    Device,
    LabSettings,
    find_faults,
    raise_faults,
)
from partita.cluster.trace import BANDWIDTHS, read_trace
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
    "name": Field(name, required=True),
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
_LINK = {
    "between": Field(list_of(text, 2)),
    "from": Field(text),
    "to": Field(text),
    "kind": Field(one_of(tuple(load_link_kinds()))),
    "bandwidth": Field(quantity("bandwidth", *BANDWIDTHS)),
    "latency": Field(quantity("time", "0 s", "1 h")),
    "per_message": Field(quantity("time", "0 s", "1 h")),
    "medium": Field(text),
    "trace": Field(text),
}
_ENDS = {"between", "from", "to"}
_SECTIONS = ("cluster", "device", "link", "lab")


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
    devices = _read_devices(data.get("device", []), slow_down, folder, faults)
    faults += _stranger_faults(given, devices)
    links = _read_links(
        data.get("link", []), list(dict.fromkeys(d.name for d in devices)), folder, faults
    )
    cluster = Cluster(
        name=head.get("name", "cluster"),
        requester=head.get("requester", devices[0].name if devices else ""),
        devices=devices,
        links=links,
        lab=LabSettings(lab.get("seed", 0), lab.get("network", "user")),
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


def _tables(value: object, where: str, faults: list[str]) -> list[tuple[str, object]]:
    """Each ``[[where]]`` table with its key for messages."""
    if not isinstance(value, list):
        faults.append(f"{where}: must be written as [[{where}]]")
        return []
    return [(f"{where}[{index}]", table) for index, table in enumerate(value)]


def _read_devices(
    tables: object, slow_down: Mapping[str, float], folder: Path, faults: list[str]
) -> tuple[Device, ...]:
    devices = []
    for where, table in _tables(tables, "device", faults):
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


def _stranger_faults(slow_down: Iterable[str], devices: Iterable[Device]) -> list[str]:
    names = list(dict.fromkeys(device.name for device in devices))
    return [
        f"lab.slow_down.{name}: {name!r} is not a device; devices are {', '.join(names)}"
        for name in slow_down
        if name not in (*names, "*")
    ]


def _check_device(table: Mapping[str, object], where: str, faults: list[str]) -> None:
    """What is missing, whatever is wrong with what is there."""
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
        memory_bytes=int(values.get("memory", entry.memory_bytes if entry else 1)),
        threads=values.get("threads", entry.cores if entry else 1),
        address=values.get("address"),
        provider=values.get("provider", "CPUExecutionProvider"),
        precisions=values.get("precisions", entry.precisions if entry else ("float32",)),
        slow_down=values["slow_down"],
        computes=values.get("computes", True),
        port_bytes_per_s=values.get("port"),
        swap_bytes_per_s=values.get("swap", entry.swap_bytes_per_s if entry else None),
        array=values.get("array"),
        endpoint=values.get("endpoint"),
    )


def _read_links(
    tables: object, names: list[str], folder: Path, faults: list[str]
) -> tuple[Link, ...]:
    """One link per ordered pair; keys of later tables override those of earlier ones."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for where, table in _tables(tables, "link", faults):
        values = read_table(table, _LINK, where, faults)
        if not isinstance(table, dict):
            continue
        pairs = _pairs(table, values, where, names, faults)
        options = {key: values[key] for key in values if key not in (*_ENDS, "kind")}
        if "trace" in options:
            options["trace"] = _trace(folder / options["trace"], where, faults)
        named = _named_options(table, values, where, names, faults)
        # A wrong bandwidth or kind is not missing, too.
        stated = {"bandwidth": 1.0} if table.keys() & {"bandwidth", "kind"} else {}
        for pair in pairs:
            merged.setdefault(pair, {}).update({**stated, **named.get(pair, {}), **options})
    faults += [
        f"link {a!r} -> {b!r}: bandwidth is missing"
        for (a, b), options in merged.items()
        if "bandwidth" not in options
    ]
    return tuple(
        _make_link(pair, merged[pair]) for pair in permutations(names, 2) if pair in merged
    )


def _named_options(
    table: Mapping[str, Any],
    values: Mapping[str, Any],
    where: str,
    names: Iterable[str],
    faults: list[str],
) -> dict[tuple[str, str], dict[str, float]]:
    """What a link's kind says, by pair: the first end sends up, the other one down."""
    if "kind" not in values:
        return {}
    ends = values.get("between", ("*", "*"))
    if ends == ("*", "*"):
        if "between" in values or "between" not in table:
            faults.append(
                f"{where}.kind: {values['kind']!r} needs between = [a, b] with one of both named:"
                " a sends at its rate up, b at its rate down"
            )
        return {}
    kind = load_link_kinds()[values["kind"]]
    up = _matches(ends[0], ends[1], names)
    return {pair: kind.options(is_up=True) for pair in up} | {
        (b, a): kind.options(is_up=False) for a, b in up
    }


def _make_link(pair: tuple[str, str], options: Mapping[str, Any]) -> Link:
    trace = options.get("trace", ())
    return Link(
        source=pair[0],
        target=pair[1],
        bandwidth_bytes_per_s=options.get("bandwidth", 1.0),
        latency_s=options.get("latency", 0.0),
        per_message_s=options.get("per_message", 0.0),
        medium=options.get("medium"),
        trace=trace,
    )


def _trace(path: Path, where: str, faults: list[str]) -> tuple[tuple[float, float], ...]:
    try:
        return read_trace(path)
    except ValueError as error:
        faults.append(f"{where}.trace: {error}")
        return ()


def _pairs(
    table: Mapping[str, Any],
    values: Mapping[str, Any],
    where: str,
    names: list[str],
    faults: list[str],
) -> list[tuple[str, str]]:
    """The ordered pairs of devices that a link table speaks of; ``values`` are those that parse."""
    one_way = "from" in table and "to" in table
    if ("between" in table) == one_way or ("from" in table) != ("to" in table):
        faults.append(f"{where}: needs either between = [a, b], or both from and to")
        return []
    if not _ENDS & table.keys() <= values.keys():
        return []
    ends = (values["from"], values["to"]) if one_way else values["between"]
    unknown = [end for end in ends if end != "*" and end not in names]
    known = ", ".join(["*", *names])
    faults += [f"{where}: {end!r} is not a device; allowed are {known}" for end in unknown]
    if not unknown and ends[0] == ends[1] != "*":
        faults.append(f"{where}: {ends[0]!r} is linked to itself")
    pairs = _matches(ends[0], ends[1], names)
    return pairs if one_way else pairs + [(b, a) for a, b in pairs]


def _matches(source: str, target: str, names: Iterable[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in permutations(names, 2) if source in ("*", a) and target in ("*", b)]
