"""Counts of durations and depths, against all the values that they stand for."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from partita.execution.histograms import DEPTHS, TimeHistogram, depth_name, depth_place

SECONDS = st.floats(1e-6, 1e5)


@given(st.lists(SECONDS, min_size=1), st.floats(0.01, 1.0))
def test_quantiles_are_those_of_the_values_to_two_percent(
    values: list[float], fraction: float
) -> None:
    """By the nearest rank, as a report's latencies."""
    histogram = TimeHistogram()
    for value in values:
        histogram.add(value)
    rank = max(1, math.ceil(fraction * len(values) - 1e-9))
    exact = sorted(values)[rank - 1]
    assert histogram.count == len(values)
    assert abs(math.log(histogram.quantile_s(fraction) / exact)) <= math.log(1.04) / 2 + 1e-9


def test_memory_does_not_grow_with_what_is_counted() -> None:
    """However many durations of whatever size there were."""
    histogram = TimeHistogram()
    for number in range(20_000):
        histogram.add(math.exp((number * 0.618) % 60 - 30))
    assert len(histogram._counts) <= 706
    histogram.add(0.0)
    assert histogram.quantile_s(0.0) > 0
    assert TimeHistogram().quantile_s(0.5) == 0.0


@given(st.integers(0, 5000))
def test_each_depth_has_one_place_and_its_name(depth: int) -> None:
    """Names say the range that a place counts."""
    place = depth_place(depth)
    assert 0 <= place < DEPTHS
    least, _, most = depth_name(place).replace(" and more", "–5000").partition("–")
    assert int(least) <= depth <= int(most or least)
