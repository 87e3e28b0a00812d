"""Clusters of published experiments, shipped as files: ``scenario:NAME`` in place of a path."""

from partita.scenarios.files import PREFIX, find_scenario, is_scenario, scenario_names
from partita.scenarios.traces import TraceOptions, draw_traces

__all__ = [
    "PREFIX",
    "TraceOptions",
    "draw_traces",
    "find_scenario",
    "is_scenario",
    "scenario_names",
]
