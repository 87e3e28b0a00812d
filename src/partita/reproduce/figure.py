"""What a reproduced figure is: tables, claims held against them, and a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from partita.errors import InputError
from partita.reproduce.bench import Bench

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Numbers as they are; who draws it decides on digits.

    Attributes:
        text_columns: Columns of words, before those of numbers.
        digits: Significant digits to show.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    text_columns: int = 1
    digits: int = 3


@dataclass(frozen=True)
class Claim:
    """One thing that the paper says, beside what our numbers say of it.

    Attributes:
        subject: Of what: the method, or the part of it.
        paper: The claim, in the paper's measure.
        ours: The same from our numbers.
        holds: Whether ours bears it out.
        source: What our numbers are from.
    """

    subject: str
    paper: str
    ours: str
    holds: bool
    source: Literal["simulation", "measurement"] = "simulation"

    @property
    def sentence(self) -> str:
        """Return the finding as a plain sentence."""
        verdict = "bears out" if self.holds else "does not bear out"
        return f'{self.subject}: our {self.source} {verdict} "{self.paper}"; it gives {self.ours}.'


@dataclass(frozen=True)
class Chart:
    """Series over the same places, as groups of bars or as lines.

    Attributes:
        kind: ``bars`` over named places, ``lines`` over numbers.
        places: Names of the groups, or the numbers on the horizontal axis.
        series: Values by name, one per place; None leaves a gap.
        spreads: Least and most per place, by a series' name, where it was run several times.
    """

    title: str
    kind: Literal["bars", "lines"]
    places: tuple[str, ...] | tuple[float, ...]
    series: Mapping[str, tuple[float | None, ...]]
    across: str
    up: str
    spreads: Mapping[str, tuple[tuple[float, float], ...]] | None = None


@dataclass(frozen=True)
class Drawn:
    """A figure made.

    Attributes:
        notes: What a reader must know of how it was made.
    """

    number: int
    title: str
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


Make = Callable[[Bench], Drawn]


@dataclass(frozen=True)
class Figure:
    """A figure or a table of a paper that can be made again."""

    number: int
    title: str
    make: Make


@dataclass(frozen=True)
class Paper:
    """A paper of which figures can be made again.

    Attributes:
        name: What is typed.
        heeds: What the command's flags can change, by the names of their parameters.
        kind: What its numbers count: figures, or tables.
    """

    name: str
    heeds: tuple[str, ...]
    kind: Literal["figure", "table"] = "figure"

    @property
    def figures(self) -> Mapping[int, Figure]:
        """What can be made, by number."""
        return _FIGURES[self]


_FIGURES: dict[Paper, dict[int, Figure]] = {}


def figure(paper: Paper, number: int, title: str) -> Callable[[Make], Make]:
    """Add a function that makes a paper's figure, or its table."""

    def add(make: Make) -> Make:
        _FIGURES.setdefault(paper, {})[number] = Figure(number, title, make)
        return make

    return add


def paper_names() -> tuple[str, ...]:
    """Return the papers of which figures can be made."""
    return tuple(sorted(paper.name for paper in _FIGURES))


def find_paper(name: str) -> Paper:
    """Return a paper by its name.

    Raises:
        InputError: It is unknown.
    """
    for paper in _FIGURES:
        if paper.name == name:
            return paper
    allowed = ", ".join(paper_names())
    raise InputError(f"Paper '{name}' is unknown; allowed: {allowed}.", subject=name)


def find_figures(name: str, numbers: Sequence[int] = ()) -> list[Figure]:
    """Return a paper's figures in order; all without numbers.

    Raises:
        InputError: The paper is unknown, or has no such figure here.
    """
    paper = find_paper(name)
    known = paper.figures
    for number in numbers:
        if number not in known:
            allowed = ", ".join(str(each) for each in sorted(known))
            raise InputError(
                f"{paper.kind.capitalize()} {number} of '{name}' is not reproduced; allowed:"
                f" {allowed}.",
                subject=str(number),
            )
    return [known[number] for number in sorted(set(numbers) or known)]
