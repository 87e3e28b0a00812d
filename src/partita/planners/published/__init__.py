"""Methods of the literature, to be compared with."""

from partita.planners.published import (
    aofl,
    coedge,
    collaborative,
    deeperthings,
    deepthings,
    mednn,
    modnn,
    offload,
)

#: Importing a method registers it.
__all__ = [
    "aofl",
    "coedge",
    "collaborative",
    "deeperthings",
    "deepthings",
    "mednn",
    "modnn",
    "offload",
]
