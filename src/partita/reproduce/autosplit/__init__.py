"""The figures and tables of 'AUTO-SPLIT: a general framework of collaborative edge-cloud AI'."""

from partita.reproduce.autosplit import (
    compression,
    cuts,
    overall,
    packing,
    plates,
    sizes,
    sweeps,
    trade_off,
)

#: Importing a module registers its figures and tables.
__all__ = ["compression", "cuts", "overall", "packing", "plates", "sizes", "sweeps", "trade_off"]
