"""Reading ``[[link]]``: tables that speak of pairs of devices, later ones over earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

from partita.cluster.fields import (
    ANY,
    Field,
    list_of,
    list_tables,
    one_of,
    quantity,
    read_table,
    text,
)
from partita.cluster.link_kinds import load_link_kinds
from partita.cluster.trace import BANDWIDTHS, read_trace
from partita.execution import Link

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


def read_links(
    tables: object, names: list[str], folder: Path, faults: list[str]
) -> tuple[Link, ...]:
    """One link per ordered pair; keys of later tables override those of earlier ones."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for where, table in list_tables(tables, "link", faults):
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
    return tuple(_make_link(pair, merged[pair]) for pair in _all_pairs(names) if pair in merged)


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
    ends = values.get("between", (ANY, ANY))
    if ends == (ANY, ANY):
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
    unknown = [end for end in ends if end != ANY and end not in names]
    known = ", ".join(dict.fromkeys([ANY, *names]))
    faults += [f"{where}: {end!r} is not a device; allowed are {known}" for end in unknown]
    if not unknown and ends[0] == ends[1] != ANY:
        faults.append(f"{where}: {ends[0]!r} is linked to itself")
    pairs = _matches(ends[0], ends[1], names)
    return pairs if one_way else pairs + [(b, a) for a, b in pairs]


def _matches(source: str, target: str, names: Iterable[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in _all_pairs(names) if source in (ANY, a) and target in (ANY, b)]


def _all_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Devices and what stands for strangers, each with each other; strangers among themselves."""
    listed = list(names)
    return [*permutations(listed, 2), *([(ANY, ANY)] if ANY in listed else [])]
