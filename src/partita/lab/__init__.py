"""Unequal devices on one machine: worker processes with slow-downs and emulated links."""

from partita.lab.memory import MemoryLab, memory_lab
from partita.lab.processes import Lab, LabOptions, start_lab

__all__ = [
    "Lab",
    "LabOptions",
    "MemoryLab",
    "memory_lab",
    "start_lab",
]
