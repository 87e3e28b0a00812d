"""One option per item within limits: by the Lagrangian and exactly, against trying all."""

from __future__ import annotations

from itertools import product
from math import inf
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from partita.planners.edgecloud.choices import choose_exactly
from partita.planners.edgecloud.knapsack import choose_by_lagrangian, choose_least
from tests.laws.test_exactness import RANDOM

#: Sizes, errors and widths of a small case whose answers were worked out by hand.
SIZES, SCALES, WIDTHS = (100, 200, 100), (1.0, 4.0, 16.0), (2, 4, 6, 8)
ERRORS = np.outer(SCALES, [4.0**-width for width in WIDTHS])
USES = np.outer(SIZES, WIDTHS).astype(float)


def _widths(chosen: tuple[int, ...] | None) -> tuple[int, ...]:
    assert chosen is not None
    return tuple(WIDTHS[option] for option in chosen)


def _error(widths: tuple[int, ...]) -> float:
    return sum(s * 4.0**-w for s, w in zip(SCALES, widths, strict=True))


def test_the_hull_misses_what_lies_above_it() -> None:
    """In 1,200 bits the exact choice is better than any point of the lower convex hull."""
    hull = _widths(choose_by_lagrangian(ERRORS, USES, 1200))
    exact = _widths(choose_least(ERRORS, USES, 1200))
    assert hull == (2, 2, 4)  # and two choices are as good as the exact one
    assert _error(_widths(choose_exactly(ERRORS, [USES], [1200]))) == _error(exact)
    assert _error(hull) == 0.375
    assert _error(exact) == 0.31640625


def test_filling_takes_what_still_fits() -> None:
    """The room that the hull leaves is used for the next steps that fit."""
    filled = _widths(choose_by_lagrangian(ERRORS, USES, 1200, fills=True))
    assert _error((2, 2, 6)) <= _error(filled) < _error((2, 2, 4))


def test_at_a_point_of_the_hull_both_agree() -> None:
    """In 2,600 bits both choose 6, 6 and 8 bits."""
    hull = _widths(choose_by_lagrangian(ERRORS, USES, 2600))
    assert hull == _widths(choose_least(ERRORS, USES, 2600)) == (6, 6, 8)
    assert _error(hull) == 0.00146484375


@pytest.mark.parametrize("most", range(800, 3300, 100))
def test_every_budget_is_kept_and_the_exact_choice_is_never_worse(most: int) -> None:
    """From the narrowest widths to the widest."""
    hull, exact = choose_by_lagrangian(ERRORS, USES, most), choose_least(ERRORS, USES, most)
    for chosen in (hull, exact):
        assert chosen is not None
        assert USES[range(3), chosen].sum() <= most
    assert _error(_widths(exact)) <= _error(_widths(hull))


def test_where_the_least_does_not_fit_there_is_no_choice() -> None:
    """One bit too few for the narrowest widths."""
    assert choose_by_lagrangian(ERRORS, USES, 799) is None
    assert choose_exactly(ERRORS, [USES], [799]) is None
    assert choose_least(ERRORS, USES, 799) is None
    assert choose_exactly(np.full((1, 2), inf), [], []) is None


def test_without_limits_each_item_has_its_least_cost() -> None:
    """Options that are not there are passed over."""
    costs = np.array([[3.0, 1.0, 2.0], [inf, 5.0, 4.0]])
    assert choose_exactly(costs, [], []) == (1, 2)
    assert choose_exactly(costs, [np.ones((2, 3))], [inf]) == (1, 2)
    assert choose_exactly(np.zeros((0, 3)), [np.zeros((0, 3))], [1.0]) == ()


def test_a_tiny_limit_rules_out_what_uses_more() -> None:
    """A limit so small that what is divided by it is infinite."""
    costs, use = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    assert choose_exactly(costs, [use], [5e-324]) == (0, 1)


@settings(max_examples=60)
@given(RANDOM)
def test_it_is_the_best_of_all_choices(rng: Random) -> None:
    """With up to three limits, uses of very different size, and costs that do not fall."""
    items, options, limits = rng.randint(1, 5), rng.randint(1, 4), rng.randint(1, 3)

    def draw() -> np.ndarray:
        scale = 10 ** rng.uniform(-6, 8)
        drawn = [rng.choice((0.0, rng.uniform(0, 1), 0.5)) for _ in range(items * options)]
        return scale * np.array(drawn).reshape(items, options)

    costs, uses = draw(), [draw() for _ in range(limits)]
    most = [rng.uniform(0.2, 1) * use.max(axis=1).sum() for use in uses]
    every = list(product(range(options), repeat=items))
    limits = [limit * (1 + 1e-12) for limit in most]  # sums are rounded
    fits = [
        one
        for one in every
        if all(use[range(items), one].sum() <= m for use, m in zip(uses, limits, strict=True))
    ]
    exact = choose_exactly(costs, uses, most)
    if not fits:
        assert exact is None
        return
    assert exact is not None
    least = min(costs[range(items), one].sum() for one in fits)
    assert costs[range(items), exact].sum() == pytest.approx(
        least, rel=1e-7, abs=1e-9 * costs.max()
    )
    assert all(
        use[range(items), exact].sum() <= m * (1 + 1e-9) for use, m in zip(uses, most, strict=True)
    )


@settings(max_examples=80)
@given(RANDOM)
def test_within_one_limit_it_is_the_best_of_all_choices(rng: Random) -> None:
    """To the last digit, with equal costs and uses among them; the Lagrangian is never better."""
    items, options = rng.randint(0, 5), rng.randint(1, 4)

    def draw() -> np.ndarray:
        drawn = [rng.choice((0.0, 0.5, 1.0, rng.uniform(0, 1))) for _ in range(items * options)]
        return 10 ** rng.uniform(-9, 9) * np.array(drawn).reshape(items, options)

    costs, uses = draw(), draw()
    most = rng.choice((rng.uniform(0, 1), 0.5, 1.0)) * uses.max(axis=1).sum()
    layers = range(items)
    fits = [one for one in product(range(options), repeat=items) if uses[layers, one].sum() <= most]
    chosen = choose_least(costs, uses, most)
    if not fits:
        assert chosen is None
        return
    assert chosen is not None
    least = min(costs[layers, one].sum() for one in fits)
    assert costs[layers, chosen].sum() == pytest.approx(least, rel=1e-9)
    assert uses[layers, chosen].sum() <= most * (1 + 1e-12)
    for fills in (False, True):
        hull = choose_by_lagrangian(costs, uses, most, fills=fills)
        assert hull is not None
        assert uses[layers, hull].sum() <= most * (1 + 1e-12)
        assert costs[layers, hull].sum() >= costs[layers, chosen].sum() * (1 - 1e-12)
