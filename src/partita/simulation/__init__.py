"""Predicted runs: the execution's state machines on a virtual clock."""

from partita.simulation.adaptive import (
    AdaptiveRun,
    Method,
    Searched,
    plan_key,
    simulate_adaptive,
)
from partita.simulation.simulate import simulate
from partita.simulation.single_request import latency_s

__all__ = [
    "AdaptiveRun",
    "Method",
    "Searched",
    "latency_s",
    "plan_key",
    "simulate",
    "simulate_adaptive",
]
