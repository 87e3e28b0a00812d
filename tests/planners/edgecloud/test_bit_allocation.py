"""Widths of weights and activations within budgets."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from partita.planners.edgecloud.bit_allocation import allocate_activations, allocate_weights
from partita.planners.edgecloud.network import Network
from tests.laws.test_exactness import RANDOM
from tests.planners.edgecloud.cases import draw_errors, draw_network

WIDTHS = (2, 4, 6, 8)


@settings(max_examples=40)
@given(RANDOM)
def test_exact_weights_are_the_least_and_never_worse_than_the_hull(rng: Random) -> None:
    """Against every allocation of up to five layers."""
    network = draw_network(rng, rng.randint(1, 5))
    layers = len(network.layers)
    errors = draw_errors(rng, network, WIDTHS)
    budget = rng.uniform(1, 9) * sum(network.weights)

    def total(bits: tuple[int, ...]) -> float:
        return float(errors[range(layers), [WIDTHS.index(b) for b in bits]].sum())

    def used(bits: tuple[int, ...]) -> int:
        return sum(n * b for n, b in zip(network.weights, bits, strict=True))

    least = min(
        (total(b) for b in product(WIDTHS, repeat=layers) if used(b) <= budget), default=None
    )
    exact = allocate_weights(network, errors, WIDTHS, budget, exact=True)
    hull = allocate_weights(network, errors, WIDTHS, budget, exact=False)
    if least is None:
        assert exact is None
        assert hull is None
        return
    assert exact is not None
    assert hull is not None
    assert used(exact) <= budget
    assert used(hull) <= budget
    assert total(exact) == pytest.approx(least, rel=1e-6)
    assert total(exact) <= total(hull)


def _chain(*sizes: int) -> Network:
    """Return layers in a row of whose tensors only the one being made is in memory."""
    count = len(sizes)
    return Network(
        tuple("abcdef"[:count]), (0,) * count, (-1, *range(count)), (0, *sizes),
        tuple((n,) for n in range(count + 1)), tuple((n + 1,) for n in range(count)),
    )  # fmt: skip


@pytest.mark.parametrize("budget", [100, 399, 400, 800, 1199, 1200, 1600])
def test_in_a_chain_each_layer_has_the_widest_that_fits(budget: int) -> None:
    """Tensors of which each is in memory alone: the widest width within the budget, or none."""
    network = _chain(100, 200, 50)
    errors = np.outer([1.0, 1.0, 1.0], [4.0**-width for width in WIDTHS])
    made = allocate_activations(network, errors, WIDTHS, budget)
    widest = [max((b for b in WIDTHS if s * b <= budget), default=0) for s in (100, 200, 50)]
    assert made == (None if 0 in widest else tuple(widest))


@settings(max_examples=60)
@given(RANDOM)
def test_working_sets_fit_wherever_they_can(rng: Random) -> None:
    """Something is found exactly where the narrowest fit; no layer could be wider alone."""
    network = draw_network(rng, rng.randint(1, 5))
    layers = len(network.layers)
    errors = draw_errors(rng, network, WIDTHS)
    budget = rng.uniform(0.2, 1.1) * network.memory_bits(layers, [0] * layers, [8] * layers)
    made = allocate_activations(network, errors, WIDTHS, budget)

    def fits(bits: tuple[int, ...]) -> bool:
        return network.memory_bits(layers, [0] * layers, bits) <= budget

    if made is None:
        assert not fits((2,) * layers)
        return
    assert fits(made)
    for layer, width in product(range(layers), WIDTHS):
        better = errors[layer, WIDTHS.index(width)] < errors[layer, WIDTHS.index(made[layer])]
        assert not (better and fits((*made[:layer], width, *made[layer + 1 :])))
