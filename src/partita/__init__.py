"""Partita: one neural network on many small machines.

Names are loaded when they are used, so that a worker never needs the planning part.
"""

from __future__ import annotations

import os

from partita.lazy import on_first_use
from partita.version import VERSION

__version__ = VERSION

# From 1.29 on ONNX Runtime's wheels tell its maker names, producers and hashes of the models that
# they run. This is read once, when it is first imported: its own call to disable comes too late.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

#: Known to type checkers by its name. Importing ``typing`` takes longer than all else that comes
#: before the command line heeds Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from partita.api import Adapt, compare, deploy, simulate
    from partita.cluster import Cluster, load_cluster
    from partita.compile import check_plan
    from partita.compile.export import export_plan
    from partita.cost import CostModel
    from partita.errors import PartitaError
    from partita.execution import AdaptOptions, Report
    from partita.graph import Graph, load_graph
    from partita.leader import Session
    from partita.loading import load_bundle
    from partita.plan import Plan, dump_plan, load_plan
    from partita.planners import PlanOptions, Result, find_plan, planner_names, what_if
    from partita.profile import Profile, load_profile, measure_profile, save_profile
    from partita.simulation import simulate_adaptive
    from partita.streams import StreamOptions, stream

_MODULES = {
    "api": "Adapt compare deploy simulate",
    "cluster": "Cluster load_cluster",
    "compile": "check_plan",
    "compile.export": "export_plan",
    "cost": "CostModel",
    "errors": "PartitaError",
    "execution": "AdaptOptions Report",
    "graph": "Graph load_graph",
    "leader": "Session",
    "loading": "load_bundle",
    "plan": "Plan dump_plan load_plan",
    "planners": "PlanOptions Result find_plan planner_names what_if",
    "profile": "Profile load_profile measure_profile save_profile",
    "simulation": "simulate_adaptive",
    "streams": "StreamOptions stream",
}

__all__ = [
    "Adapt",
    "AdaptOptions",
    "Cluster",
    "CostModel",
    "Graph",
    "PartitaError",
    "Plan",
    "PlanOptions",
    "Profile",
    "Report",
    "Result",
    "Session",
    "StreamOptions",
    "check_plan",
    "compare",
    "deploy",
    "dump_plan",
    "export_plan",
    "find_plan",
    "load_bundle",
    "load_cluster",
    "load_graph",
    "load_plan",
    "load_profile",
    "measure_profile",
    "planner_names",
    "save_profile",
    "simulate",
    "simulate_adaptive",
    "stream",
    "what_if",
]

__getattr__ = on_first_use(__name__, _MODULES)
