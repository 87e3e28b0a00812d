"""Methods of the literature, to be compared with."""

from partita.planners.published import aofl, coedge, deeperthings, deepthings, mednn, modnn, offload

#: Importing a method registers it.
__all__ = ["aofl", "coedge", "deeperthings", "deepthings", "mednn", "modnn", "offload"]
