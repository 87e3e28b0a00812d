"""Inputs that are drawn."""

from __future__ import annotations

import pytest

from partita.cli.inputs import draw_inputs
from partita.errors import InputError
from partita.program import TensorSpec


def test_more_inputs_than_memory_holds_are_refused() -> None:
    """The line says how large they are; nothing is drawn."""
    specs = (TensorSpec("x", (1, 3, 224, 224), "float32"),)
    with pytest.raises(InputError, match="1000000 inputs of 602 kB each do not fit in memory"):
        draw_inputs(specs, 10**6, 0)
    assert len(draw_inputs(specs, 2, 0)) == 2
