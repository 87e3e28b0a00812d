"""Methods that decide how to divide a network, and how good their plans are."""

from partita.planners import distredge, edgecloud, published, search, simple
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.find import find_plan
from partita.planners.gains import Outcome, WhatIf, what_if
from partita.planners.options import OBJECTIVES, Objective, PlanOptions
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, get_planner, planner_names, register
from partita.planners.result import Estimate, Result
from partita.planners.variations import Variation

#: Importing these registers their methods.
_METHODS = (simple, search, published, edgecloud, distredge)

__all__ = [
    "OBJECTIVES",
    "Chosen",
    "Draft",
    "DraftStage",
    "Estimate",
    "Evaluator",
    "LayerOrder",
    "Objective",
    "Outcome",
    "PlanOptions",
    "Result",
    "Variation",
    "WhatIf",
    "find_plan",
    "get_planner",
    "planner_names",
    "register",
    "what_if",
]
