"""Devices that no entry of the cluster file names: what they are priced by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from partita.cluster import UNMEASURED
from partita.cost import CostModel, extend_cost
from partita.errors import RunError
from partita.leader.bench import WorkerBench
from partita.profile import MeasureOptions, Profile, measure_profile
from partita.worker.messages import Info


def admit_stranger(
    cost: CostModel, info: Info, bench: Callable[[], WorkerBench], check: Callable[..., None]
) -> CostModel:
    """The cost model of a cluster with one device more.

    It is priced by the kind or profile that the file's entry for strangers has. Where that has
    neither the model is measured on its worker, which takes as long as ``partita profile``.

    Args:
        info: What its worker says of itself.
        bench: See :meth:`partita.leader.planning.Planning.admit`, as for ``check``.

    Raises:
        ClusterError: No stranger may come, or its profile is of another model.
        RunError: It is lost, or runs a plan of somebody else, while it is measured.
    """
    cluster = cost.cluster.with_stranger(info.name, info.memory_limit_bytes)
    profile = None
    if cluster.device(info.name).kind == UNMEASURED:
        profile = _measure(cost, info.name, bench(), check)
    return extend_cost(cost, cluster, info.name, profile)


def _measure(
    cost: CostModel, device: str, bench: WorkerBench, check: Callable[..., None]
) -> Profile:
    graph = cost.graph.base or cost.graph
    try:
        return measure_profile(graph, MeasureOptions(device=device), check, bench)
    finally:
        with contextlib.suppress(RunError):  # it is gone, and with it what it holds
            bench.close()
