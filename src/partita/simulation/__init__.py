"""A program on a virtual clock: predicts what a run will give."""

from partita.simulation.longest import latency_s
from partita.simulation.simulate import simulate

__all__ = ["latency_s", "simulate"]
