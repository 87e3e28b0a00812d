"""Figures are made as they say, and claims are held against the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import cast

import pytest

from partita.cluster import find_entry
from partita.reproduce.bench import Bench
from partita.reproduce.distredge import speed
from partita.reproduce.distredge.dynamic import AOFL_FREE, AOFL_PAPER, LINES, Adapting, run_hour
from partita.reproduce.distredge.methods import (
    METHODS,
    Grid,
    Place,
    claim_fastest,
    claim_larger,
    claim_over_aofl,
)
from partita.reproduce.distredge.why import measure_stairs
from partita.reproduce.papers import find_figures
from partita.reproduce.study import Outcome, Series, Study
from tests.reproduce.samples import small_graph


class _Told:
    """Stands for a bench: rates by scenario and method; 10 where nothing is told."""

    study = Study()

    def __init__(self, rates: Mapping[tuple[str, str], float]) -> None:
        self._rates = rates

    def run(self, scenario: str, model: str, planner: str) -> Series:
        """Return one outcome with the rate told; no plan where it is 0."""
        rate = self._rates.get((scenario, planner), 10.0)
        if not rate:
            return Series((Outcome(fault="no room"),))
        return Series((Outcome(1 / rate, rate, {"pi-1": 0.01 if rate > 20 else 0.0}),))


def _grid(rates: Mapping[tuple[str, str], float], *scenarios: str) -> Grid:
    bench = cast(Bench, _Told(rates))
    return Grid(bench, [Place(name, name, "vgg16") for name in scenarios])


def test_ratios_are_of_rates_and_missing_plans_leave_gaps() -> None:
    """A ratio is rate over rate; a method without a plan has none, and is named with its reason."""
    grid = _grid({("A", "aofl"): 8.0, ("A", "distredge"): 12.0, ("A", "coedge"): 0.0}, "A")
    assert grid.ratio("A", "distredge", "aofl") == 1.5
    assert grid.ratio("A", "distredge", "coedge") is None
    assert grid.over_best("A", "distredge") == 1.2
    assert grid.faults == ("CoEdge has no plan for A: no room",)


def test_claims_hold_only_where_all_cases_do() -> None:
    """One case below the paper's least gain is enough to deny it, and the sentence says so."""
    rates = {("A", "distredge"): 16.0, ("B", "distredge"): 14.0, ("A", "distredge_published"): 16.0}
    rates[("B", "distredge_published")] = 15.0
    grid = _grid(rates, "A", "B")
    published, repaired = claim_over_aofl(grid, "1.5 to 3x over AOFL", ("A", "B"), 1.5)
    assert (published.holds, repaired.holds) == (True, False)
    assert repaired.sentence == (
        'DistrEdge repaired: our simulation does not bear out "1.5 to 3x over AOFL"; it gives 1.40'
        " to 1.60x."
    )
    assert all(claim.holds for claim in claim_fastest(grid))
    assert all(claim.holds for claim in claim_larger(grid, "more", ("A",), ("B",)))
    assert not any(claim.holds for claim in claim_larger(grid, "more", ("B",), ("A",)))


def test_idle_device_is_seen() -> None:
    """The claim about the Pi 3 is read off what it computes."""
    drawn = speed.make_devices(cast(Bench, _Told({("DC-50", "distredge"): 25.0})))
    found = {claim.subject: claim.holds for claim in drawn.claims if "Pi 3" in claim.paper}
    assert found == {"DistrEdge as published": True, "DistrEdge repaired": False}


def test_every_figure_of_the_evaluation_is_there() -> None:
    """Figures 4 to 14 can be made, in order."""
    assert [(one.kind, one.number) for one in find_figures("distredge")] == [
        ("figure", number) for number in range(4, 15)
    ]


def test_stairs_are_the_catalogues() -> None:
    """Where computing decides, time rises once per rows that the device computes together."""
    bench = Bench(Study(), load_model=small_graph)
    cost = bench.cost("DC-50", "small")
    for device in ("xavier-1", "nano-1", "pi-1"):
        stairs = measure_stairs(cost, device, "conv1")
        assert len(stairs.seconds) == 32
        assert stairs.steps >= ceil(32 / find_entry(cost.cluster.device(device).kind).tile_rows)
        assert list(stairs.seconds) == sorted(stairs.seconds)
        assert 0 <= stairs.off < 1


@pytest.fixture(scope="module")
def quick() -> Bench:
    """Return a bench with a small network and next to no training."""
    study = Study(episodes=3, images=5, repeats=1, budget_s=0.5)
    return Bench(study, load_model=small_graph)


@pytest.mark.slow
@pytest.mark.parametrize("number", [5, 14])
def test_figures_with_training_are_made(quick: Bench, number: int) -> None:
    """Tables are full and charts have a value for each place and method."""
    (figure,) = find_figures("distredge", [("figure", number)])
    drawn = figure.make(quick)
    for table in drawn.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) and None not in row for row in table.rows)
    for chart in drawn.charts:
        assert all(len(values) == len(chart.places) for values in chart.series.values())
    assert drawn.claims
    if number == 14:
        assert [row[0] for row in drawn.tables[0].rows] == list(METHODS.values())


def _line(title: str) -> Adapting:
    return next(line for line in LINES if line.title == title)


@pytest.mark.slow
def test_a_charged_search_comes_late(quick: Bench) -> None:
    """All images are answered; AOFL searching for free follows each point of the traces, and where
    ten minutes are charged no new plan comes within five."""
    free = run_hour(quick, _line(AOFL_FREE), 0, duration_s=300.0)
    charged = run_hour(quick, _line(AOFL_PAPER), 0, duration_s=300.0)
    assert free.answered == free.sent == charged.answered == 300
    assert len(free.minutes_s) == 5
    assert len(free.searches_s) >= 29
    assert len(charged.searches_s) <= 2
    assert free.mean_s <= charged.mean_s
