"""What rounding allows: a step where a number lies between two, and no more without a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from partita.exactness.compare import Difference, Weigher
from partita.exactness.steps import Steps, rounding_errors
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.quantisation import choose_bits, collect_ranges, quantize
from tests.quantisation.networks import draw_samples, small_graph


def _quantised(activations: int = 8) -> Graph:
    graph = small_graph()
    ranges = collect_ranges(graph, draw_samples())
    return quantize(graph, choose_bits(graph, ranges, 8, activations))


def test_a_step_is_that_of_the_codes() -> None:
    """Tensors with codes have theirs, the answer one of its own size, what is exact none."""
    graph = _quantised(4)
    steps = Steps(graph)
    assert steps.of("x.quantized", 1.0) == 0.0  # the same number is rounded everywhere
    assert steps.of("r", 7.0) == graph.packings["r"].scale
    assert steps.of("y", 15.0) == pytest.approx(2.0)
    assert Steps(small_graph()).of("r", 1.0) == 0.0


@pytest.mark.parametrize(("share", "is_within"), [(0.9, True), (1.5, False), (1e6, False)])
def test_more_than_rounding_does_is_a_fault(share: float, is_within: bool) -> None:
    """A difference within a step and what rounding changes passes, and none that is larger."""
    graph = _quantised()
    (feeds,) = draw_samples(1)
    values = WholeModel(graph, ["s"]).run(feeds)
    largest = float(np.abs(values["s"]).max())
    error = rounding_errors(graph, ["s"], feeds)["s"]
    assert 0 < error < largest / 50
    most = float(graph.packings["s"].scale) + error
    (weighed,) = Weigher(graph).weigh([Difference("s", share * most, largest)], feeds)
    assert weighed.is_within(1e-5) == is_within


def test_nothing_is_allowed_without_bits() -> None:
    """Of a float network the usual tolerance holds, also where it was quantised elsewhere."""
    graph = small_graph()
    (feeds,) = draw_samples(1)
    difference = Difference("s", 1e-3, 1.0)
    (weighed,) = Weigher(graph).weigh([difference], feeds)
    assert not weighed.is_within(1e-5)
    assert rounding_errors(graph, ["s"], feeds) == {}
    assert replace(weighed, scale=None) == difference
