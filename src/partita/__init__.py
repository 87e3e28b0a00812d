"""Partita: one neural network on many small machines."""

__version__ = "0.1.0"
