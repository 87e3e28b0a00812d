"""The cost of messages on a link."""

from __future__ import annotations

import pytest

from partita.profile import fit_link, measure_link


def test_line_through_exact_samples_is_found() -> None:
    """A link of 2 ms and 5 MB/s is recovered from its own times."""
    cost = measure_link(lambda size: 0.002 + size / 5e6, sizes=(1, 1000, 1_000_000), repeats=3)
    assert cost.per_message_s == pytest.approx(0.002, rel=1e-6)
    assert cost.bytes_per_s == pytest.approx(5e6, rel=1e-6)
    assert len(cost.samples) == 3


def test_median_ignores_a_stray_message() -> None:
    """One delayed message of seven does not change the cost."""
    delays = iter([1.0, *[0.0] * 13])
    cost = measure_link(lambda size: 0.001 + size / 1e6 + next(delays), sizes=(10, 1000))
    assert cost.per_message_s == pytest.approx(0.001, rel=1e-6)


def test_fixed_cost_is_never_negative() -> None:
    """A line that would cross zero too late is cut at zero."""
    assert fit_link([(10, 1e-6), (20, 3e-6)]).per_message_s == 0.0


def test_a_token_bucket_is_not_taken_for_a_faster_link() -> None:
    """What fits in the bucket passes at once; the rate is that of what does not."""
    rate, bucket = 12e6, 65_536
    sizes = (0, 4096, 65_536, 262_144, 1_048_576)
    samples = [(size, 1e-4 + max(0, size - bucket) / rate) for size in sizes]
    cost = fit_link(samples)
    assert cost.bytes_per_s == pytest.approx(rate, rel=0.05)
    assert cost.per_message_s <= 2e-4


def test_one_size_is_not_enough() -> None:
    """Two numbers cannot come from one."""
    with pytest.raises(ValueError, match="two sizes"):
        fit_link([(10, 1.0), (10, 2.0)])
