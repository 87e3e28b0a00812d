"""Predicted runs: the execution's state machines on a virtual clock."""

from partita.simulation.adaptive import (
    AdaptiveRun,
    Method,
    Searched,
    plan_key,
    simulate_adaptive,
)
from partita.simulation.predict import predict
from partita.simulation.simulate import simulate
from partita.simulation.single_request import EventGraph, Message, latency_s, program_graph

__all__ = [
    "AdaptiveRun",
    "EventGraph",
    "Message",
    "Method",
    "Searched",
    "latency_s",
    "plan_key",
    "predict",
    "program_graph",
    "simulate",
    "simulate_adaptive",
]
