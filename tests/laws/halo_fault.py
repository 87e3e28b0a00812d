"""A fault that laws of exactness must see: a halo that is one row or column too small."""

from __future__ import annotations

import pytest

from partita.graph.rules import window


def forget_halo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows forget one row or column of their halo for the rest of the test."""
    honest = window.part_of_axis

    def short(axis: window.AxisWindow, interval: tuple[int, int]) -> window.AxisPart:
        part = honest(axis, interval)
        start, stop = part.need
        if stop - start < 3 or start == 0 or interval == (0, axis.out_extent):
            return part
        return window.AxisPart((start + 1, stop), (1, part.pads[1]), part.computed, part.overflows)

    monkeypatch.setattr(window, "part_of_axis", short)
