"""The cost model: from graph, cluster and profiles to time, memory and energy."""

from partita.cost.amount import Amounts
from partita.cost.estimators import ESTIMATORS, Sources, make_estimator
from partita.cost.memory import MemoryUse
from partita.cost.model import CostModel, CostOptions
from partita.cost.update import cost_of_rest, extend_cost, grow_cost, rates_at, update_cost

__all__ = [
    "ESTIMATORS",
    "Amounts",
    "CostModel",
    "CostOptions",
    "MemoryUse",
    "Sources",
    "cost_of_rest",
    "extend_cost",
    "grow_cost",
    "make_estimator",
    "rates_at",
    "update_cost",
]
