"""The least cut between edge and cloud."""

from __future__ import annotations

import gc
from math import inf
from random import Random

import pytest
from hypothesis import given, settings

from partita.planners.edgecloud.min_cut import SharedTensor, TwoSides, least_cut
from tests.laws.test_exactness import RANDOM
from tests.planners.edgecloud.cases import draw_sides, least_by_trying


@settings(max_examples=60)
@given(RANDOM)
def test_it_is_the_least_of_all_cuts(rng: Random) -> None:
    """On drawn graphs of up to ten layers no set of layers on the edge costs less."""
    sides = draw_sides(rng, rng.randint(1, 8))
    least, edge = least_by_trying(sides), least_cut(sides)
    found = inf if edge is None else sides.seconds(edge)
    assert found == pytest.approx(least, abs=1e-10)


@given(RANDOM)
def test_prefixes_cost_what_their_sets_cost(rng: Random) -> None:
    """Sums along the order are those of each prefix as a set."""
    sides = draw_sides(rng, rng.randint(1, 8))
    expected = [sides.seconds(range(stop)) for stop in range(len(sides.edge_s) + 1)]
    assert sides.prefix_s() == pytest.approx(expected)


def test_a_tensor_with_two_readers_is_sent_once() -> None:
    """Two layers in the cloud read one tensor: its seconds count once, not per reader."""
    tensors = [SharedTensor(-1, (0,), 10.0), SharedTensor(0, (1, 2), 3.0)]
    sides = TwoSides([1.0, 9.0, 9.0], [0.0, 2.0, 2.0], tensors)
    edge = least_cut(sides)
    assert edge == {0}
    assert sides.seconds(edge) == 1 + 3 + 2 + 2


def test_nothing_flows_back_to_the_edge() -> None:
    """A layer that is fast on the edge stays in the cloud where what it reads is there."""
    tensors = [SharedTensor(-1, (0,), 1.0), SharedTensor(0, (1,), 5.0)]
    sides = TwoSides([100.0, 0.0], [1.0, 4.0], tensors)
    assert least_cut(sides) == frozenset()
    assert sides.seconds({1}) == inf


def test_of_equal_cuts_the_edge_has_the_fewest_layers() -> None:
    """Layers that are free anywhere go to the cloud."""
    sides = TwoSides([0.0, 0.0], [0.0, 0.0], [SharedTensor(-1, (0,), 0.0)])
    assert least_cut(sides) == frozenset()


def test_a_layer_that_can_be_nowhere_has_no_cut() -> None:
    """Without a finite sum there is no answer."""
    assert least_cut(TwoSides([inf], [inf], [])) is None


def test_a_cut_leaves_no_graph_to_the_garbage_collector() -> None:
    """Leaders seek cuts for months, and garbage in circles is collected late: it is of no size."""

    def count_garbage(layers: int) -> int:
        tensors = [SharedTensor(number - 1, (number,), 0.5) for number in range(layers)]
        sides = TwoSides([2.0] * layers, [1.0] * layers, tensors)
        least_cut(sides)
        gc.collect()
        least_cut(sides)
        return gc.collect()

    assert count_garbage(30) == count_garbage(3)
