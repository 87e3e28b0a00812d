"""Figure 5, and the paper's example."""

import pytest

from partita.separable.architecture import Architecture
from partita.separable.requirements import (
    least_bits_per_s,
    least_staleness,
    most_macs_per_s,
    requirements,
)

PAPERS = Architecture.parse("4x16d-56", groups=4)


def test_the_papers_example_is_sufficient() -> None:
    """Raspberry Pi 3 B+, 1.7e8 FLOPS and 300 Mbit/s: the first stage is the hardest."""
    first, second, third = (one.least_staleness(1.7e8, 300e6) for one in requirements(PAPERS))
    assert first == pytest.approx(0.267, abs=1e-3)
    assert first > second > third
    assert least_staleness(PAPERS, 1.7e8, 300e6) == 1


def test_slower_links_need_staler_features() -> None:
    """Whole windows only; none where a whole stage is too short."""
    rates = (300e6, 60e6, 30e6, 15e6, 5e6)
    assert [least_staleness(PAPERS, 1.7e8, rate) for rate in rates] == [1, 2, 3, 6, None]
    assert least_staleness(PAPERS, 1.7e8, 60e6, halves=True) == 1


def test_the_line_of_figure_5() -> None:
    """On the line, the staleness is just what is needed."""
    (first, *_) = requirements(PAPERS)
    rate = first.least_bits_per_s(1.7e8, 2)
    assert first.least_staleness(1.7e8, rate) == pytest.approx(2)


def test_both_axes_of_figure_5_are_one_line() -> None:
    """The rate for a speed is the rate up to which that speed is served."""
    rate = least_bits_per_s(PAPERS, 1.7e8, 2)
    assert most_macs_per_s(PAPERS, rate, 2) == pytest.approx(1.7e8)
    assert least_staleness(PAPERS, 1.7e8, 1.001 * rate) == 2
    assert least_staleness(PAPERS, 1.7e8, 0.999 * rate) == 3
