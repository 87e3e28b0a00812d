"""Methods that decide how to divide a network, and how good their plans are."""

from partita.planners import (
    aofl,
    best,
    coedge,
    cut,
    deeperthings,
    deepthings,
    distredge,
    exhaustive,
    mednn,
    modnn,
    offload,
    rows,
    single,
)
from partita.planners.base import (
    OBJECTIVES,
    Costs,
    Estimate,
    Found,
    Objective,
    Planner,
    PlanOptions,
    Result,
    get_planner,
    planner_names,
    register,
)
from partita.planners.draft import Draft, DraftStage
from partita.planners.evaluate import Evaluator
from partita.planners.find import find_plan
from partita.planners.outline import Outline

#: Importing a method registers it.
_METHODS = (single, cut, rows, exhaustive, best)
#: Those of the literature, to be compared with.
_PUBLISHED = (coedge, modnn, mednn, deepthings, deeperthings, aofl, offload, distredge)

__all__ = [
    "OBJECTIVES",
    "Costs",
    "Draft",
    "DraftStage",
    "Estimate",
    "Evaluator",
    "Found",
    "Objective",
    "Outline",
    "PlanOptions",
    "Planner",
    "Result",
    "find_plan",
    "get_planner",
    "planner_names",
    "register",
]
