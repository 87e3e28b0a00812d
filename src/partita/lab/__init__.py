"""Unequal devices on one machine: worker processes with slow-downs and emulated links."""

from partita.lab.processes import Lab, LabOptions, start_lab

__all__ = ["Lab", "LabOptions", "start_lab"]
