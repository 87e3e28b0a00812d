"""Predicted runs: the execution's state machines on a virtual clock."""

from partita.simulation.adaptive import (
    AdaptiveRun,
    Method,
    Searched,
    plan_key,
    simulate_adaptive,
)
from partita.simulation.longest import latency_s
from partita.simulation.simulate import simulate

__all__ = [
    "AdaptiveRun",
    "Method",
    "Searched",
    "latency_s",
    "plan_key",
    "simulate",
    "simulate_adaptive",
]
