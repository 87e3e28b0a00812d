"""What a cluster's workers say of themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from partita.api import open_endpoint
from partita.cli.access import read_access
from partita.cli.actions.doctor import SILENT
from partita.cli.flags import AccessFlags
from partita.cluster import load_cluster
from partita.leader.worker_group import WorkerGroup

#: Seconds that workers may take to appear.
_WAIT_S = 5.0
_LOOK_S = 0.05


def ask_workers(path: Path, flags: AccessFlags) -> list[dict[str, Any]]:
    """Name, state and engines of each worker of a cluster; those that do not answer say so."""
    access = read_access(flags)
    cluster = load_cluster(path)
    if not any(device.address for device in cluster.devices):
        return [{"name": name, "state": "emulated by run and lab"} for name in cluster.names]
    with open_endpoint(cluster, access) as endpoint:
        deadline_s = time.monotonic() + _WAIT_S
        while set(cluster.names) - endpoint.peers() and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        there = [name for name in cluster.names if name in endpoint.peers()]
        infos = WorkerGroup(endpoint, there).greet() if there else {}
    return [
        {"name": name, "state": "ready", "providers": list(infos[name].providers)}
        if name in infos
        else {"name": name, "state": SILENT}
        for name in cluster.names
    ]
