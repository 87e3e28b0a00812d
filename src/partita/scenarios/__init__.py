"""Clusters of published experiments, shipped as files: ``scenario:NAME`` in place of a path."""

from partita.scenarios.files import PREFIX, find_scenario, is_scenario, scenario_names

__all__ = ["PREFIX", "find_scenario", "is_scenario", "scenario_names"]
