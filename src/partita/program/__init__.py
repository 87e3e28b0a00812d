"""The compiled plan as plain data."""

from partita.program.check import check_program, find_leaks
from partita.program.steps import (
    DTYPE_BYTES,
    Buffer,
    Choice,
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    FragmentInfo,
    Input,
    Load,
    Program,
    Receive,
    Send,
    Step,
    Stream,
    TensorSpec,
    is_active,
)

__all__ = [
    "DTYPE_BYTES",
    "Buffer",
    "Choice",
    "Compute",
    "Deliver",
    "DeviceProgram",
    "Feed",
    "FragmentInfo",
    "Input",
    "Load",
    "Program",
    "Receive",
    "Send",
    "Step",
    "Stream",
    "TensorSpec",
    "check_program",
    "find_leaks",
    "is_active",
]
