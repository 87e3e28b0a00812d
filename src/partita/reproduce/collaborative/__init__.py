"""Figures and tables of the paper on collaborative execution by small devices."""

from partita.reproduce.collaborative import costs, layers, models

#: Importing a module registers its figures.
_GROUPS = (costs, layers, models)
