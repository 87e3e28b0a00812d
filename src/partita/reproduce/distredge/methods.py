"""The methods that figures compare, by the names of their planners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Table
from partita.reproduce.study import Series

BASELINES = {
    "coedge": "CoEdge",
    "modnn": "MoDNN",
    "mednn": "MeDNN",
    "deepthings": "DeepThings",
    "deeperthings": "DeeperThings",
    "aofl": "AOFL",
    "offload": "Offload",
}
DISTREDGE = {"distredge_published": "DistrEdge as published", "distredge": "DistrEdge repaired"}
METHODS = {**BASELINES, **DISTREDGE, "best": "best"}


@dataclass(frozen=True)
class Place:
    """One group of bars: a model on a cluster."""

    title: str
    scenario: str
    model: str


class Grid:
    """Images per second of every method at every place.

    Args:
        places: Groups of bars, in order.
    """

    def __init__(self, bench: Bench, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self._series = {
            (place.title, method): bench.run(place.scenario, place.model, method)
            for place in self.places
            for method in METHODS
        }

    def series(self, place: str, method: str) -> Series:
        """A method's outcomes at a place."""
        return self._series[place, method]

    def rate(self, place: str, method: str) -> float | None:
        """A method's images per second, mean over seeds; None where it has no plan."""
        series = self.series(place, method)
        return None if series.fault else series.images_per_second

    def ratio(self, place: str, method: str, other: str) -> float | None:
        """A method's images per second over another's; None where one has no plan."""
        mine, theirs = self.rate(place, method), self.rate(place, other)
        return mine / theirs if mine is not None and theirs else None

    def over_best(self, place: str, method: str) -> float | None:
        """A method's images per second over the best baseline's."""
        rates = [rate for each in BASELINES if (rate := self.rate(place, each))]
        mine = self.rate(place, method)
        return mine / max(rates) if rates and mine is not None else None

    @property
    def faults(self) -> tuple[str, ...]:
        """Which method has no plan where, and why."""
        where: dict[tuple[str, str], list[str]] = {}
        for (place, method), series in self._series.items():
            if series.fault:
                where.setdefault((METHODS[method], series.fault), []).append(place)
        return tuple(
            f"{method} has no plan for {', '.join(places)}: {fault}"
            for (method, fault), places in where.items()
        )


def rate_table(grid: Grid, title: str, what: str) -> Table:
    """Images per second: a row per place, a column per method."""
    rows: list[tuple[Cell, ...]] = [
        (place.title, *(grid.rate(place.title, method) for method in METHODS))
        for place in grid.places
    ]
    return Table(f"{title}: images per second", (what, *METHODS.values()), tuple(rows))


def ratio_table(grid: Grid, title: str, what: str, paper: Callable[[str], str]) -> Table:
    """DistrEdge over each method, as published and repaired, and the paper's word on it.

    Args:
        what: Head of the first column.
        paper: What the paper says of a place.
    """
    rows: list[tuple[Cell, ...]] = [
        (
            place.title,
            name.removeprefix("DistrEdge "),
            *(grid.ratio(place.title, method, each) for each in BASELINES),
            grid.over_best(place.title, method),
            paper(place.title),
        )
        for place in grid.places
        for method, name in DISTREDGE.items()
    ]
    columns = (what, "DistrEdge", *BASELINES.values(), "best of them", "paper")
    return Table(f"{title}: DistrEdge over each method", columns, tuple(rows), text_columns=2)


def rate_chart(grid: Grid, title: str, what: str) -> Chart:
    """Groups of bars; those of methods that draw have whiskers over seeds."""
    names = [place.title for place in grid.places]
    values = {
        title: tuple(grid.rate(place, method) for place in names)
        for method, title in METHODS.items()
    }
    spreads = {
        name: tuple(
            (grid.series(place, method).lowest, grid.series(place, method).highest)
            for place in names
        )
        for method, name in DISTREDGE.items()
    }
    return Chart(title, "bars", tuple(names), values, what, "images per second", spreads)


def claim_fastest(grid: Grid) -> list[Claim]:
    """The claim that DistrEdge is above every baseline everywhere."""
    claims = []
    for method, name in DISTREDGE.items():
        gains = known(grid.over_best(place.title, method) for place in grid.places)
        if not gains:
            continue
        wins = sum(gain > 1 for gain in gains)
        ours = f"{wins} of {len(gains)} cases, {span(gains)} the best baseline"
        claims.append(
            Claim(name, "faster than all baselines in all cases", ours, wins == len(gains))
        )
    return claims


def claim_over_aofl(grid: Grid, groups: str, places: Sequence[str], least: float) -> list[Claim]:
    """The claim of a gain over AOFL in some places.

    Args:
        least: The smallest gain that the paper names.
    """
    claims = []
    for method, name in DISTREDGE.items():
        gains = known(grid.ratio(place, method, "aofl") for place in places)
        if gains:
            claims.append(Claim(name, groups, span(gains), min(gains) >= least))
    return claims


def claim_larger(grid: Grid, words: str, more: Sequence[str], less: Sequence[str]) -> list[Claim]:
    """The claim that the mean gain over AOFL is larger in some places than in others."""
    claims = []
    for method, name in DISTREDGE.items():
        gains = [known(grid.ratio(p, method, "aofl") for p in places) for places in (more, less)]
        if all(gains):
            means = [mean(each) for each in gains]
            ours = f"{means[0]:.2f}x against {means[1]:.2f}x on average"
            claims.append(Claim(name, words, ours, means[0] > means[1]))
    return claims


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are there."""
    return [value for value in values if value is not None]


def span(values: Sequence[float]) -> str:
    """Factors in words.

    >>> span([1.5, 1.234])
    '1.23 to 1.50x'
    """
    return f"{min(values):.2f} to {max(values):.2f}x"
