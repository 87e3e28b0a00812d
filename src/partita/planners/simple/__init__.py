"""Planners that need no search."""

from partita.planners.simple import cut, rows, single

#: Importing a method registers it.
__all__ = ["cut", "rows", "single"]
