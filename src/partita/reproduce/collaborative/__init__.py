"""Figures and tables of the paper on collaborative execution by small devices."""

from partita.reproduce.collaborative import costs, layers, layerwise, models, pipelines, real_runs

#: Importing a module registers its figures.
_GROUPS = (costs, layers, layerwise, models, pipelines, real_runs)
