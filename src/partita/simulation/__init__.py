"""Predicted runs: the execution's state machines on a virtual clock."""

from partita.simulation.adaptive import (
    Method,
    Searched,
    plan_key,
    simulate_adaptive,
)
from partita.simulation.period import (
    OutOfTimeError,
    Until,
    answer_period_s,
    predict_period_s,
)
from partita.simulation.predict import predict
from partita.simulation.simulate import simulate
from partita.simulation.single_request import EventGraph, Message, latency_s

__all__ = [
    "EventGraph",
    "Message",
    "Method",
    "OutOfTimeError",
    "Searched",
    "Until",
    "answer_period_s",
    "latency_s",
    "plan_key",
    "predict",
    "predict_period_s",
    "simulate",
    "simulate_adaptive",
]
