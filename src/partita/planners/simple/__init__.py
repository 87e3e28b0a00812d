"""Planners that need no search."""

from partita.planners.simple import branches, cut, rows, single

#: Importing a method registers it.
__all__ = ["branches", "cut", "rows", "single"]
