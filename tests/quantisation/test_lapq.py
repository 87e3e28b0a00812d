"""LAPQ: never worse than least squares, by what outputs lose."""

from __future__ import annotations

import pytest

from partita.quantisation import choose_bits, collect_ranges, search_lapq
from partita.quantisation.lapq import _lowest
from partita.quantisation.outputs import Reference
from tests.quantisation.networks import draw_samples, small_graph


def test_ranges_by_what_outputs_lose() -> None:
    """With three bits the search finds a table that outputs lose less by."""
    graph, samples = small_graph(), draw_samples(2)
    ranges = collect_ranges(graph, samples)
    reference = Reference(graph, samples)
    squares = reference.measure(choose_bits(graph, ranges, 3, 3), "output-mse")
    steps: list[int] = []
    found = search_lapq(
        reference, ranges, 3, 3, evaluations=30,
        advance=lambda done, total, what: steps.append(done),
    )  # fmt: skip
    assert reference.measure(found, "output-mse") < 0.9 * squares
    assert steps == sorted(steps)
    assert found.keys() == choose_bits(graph, ranges, 3, 3).keys()


def test_the_parabola_through_losses() -> None:
    """Its lowest point within the exponents; where it bends down, the best of those tried."""
    assert _lowest([2, 3, 4], [1.0, 0.0, 1.0]) == pytest.approx(3)
    assert _lowest([2, 3, 4], [3.0, 1.0, 0.5]) == pytest.approx(3.83, abs=0.01)
    assert _lowest([2, 3, 4], [0.0, 1.0, 0.5]) == 2
