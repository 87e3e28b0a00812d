"""A program on a virtual clock: predicts what a run will give."""

from partita.simulation.simulate import simulate

__all__ = ["simulate"]
