"""Partita against its peers, each measured in the same run: ``python -m benchmarks.all``."""
