"""Planners that search on the exact price."""

from partita.planners.search import best, exhaustive

#: Importing a method registers it.
__all__ = ["best", "exhaustive"]
