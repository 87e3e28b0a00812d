"""Partita: one neural network on many small machines.

Names are loaded when they are used, so that a worker never needs the planning part.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

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
    from partita.planners import PlanOptions, Result, find_plan, planner_names
    from partita.profile import Profile, load_profile, measure_profile, save_profile
    from partita.simulation import simulate_adaptive

_HOMES = {
    "Adapt": "partita.api",
    "AdaptOptions": "partita.execution",
    "Cluster": "partita.cluster",
    "CostModel": "partita.cost",
    "Graph": "partita.graph",
    "PartitaError": "partita.errors",
    "Plan": "partita.plan",
    "PlanOptions": "partita.planners",
    "Profile": "partita.profile",
    "Report": "partita.execution",
    "Result": "partita.planners",
    "Session": "partita.leader",
    "check_plan": "partita.compile",
    "compare": "partita.api",
    "deploy": "partita.api",
    "dump_plan": "partita.plan",
    "export_plan": "partita.compile.export",
    "find_plan": "partita.planners",
    "load_bundle": "partita.loading",
    "load_cluster": "partita.cluster",
    "load_graph": "partita.graph",
    "load_plan": "partita.plan",
    "load_profile": "partita.profile",
    "measure_profile": "partita.profile",
    "planner_names": "partita.planners",
    "save_profile": "partita.profile",
    "simulate": "partita.api",
    "simulate_adaptive": "partita.simulation",
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
]


def __getattr__(name: str) -> Any:
    """Load an exported name's package on first use."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
