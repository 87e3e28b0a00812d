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
    source: Literal["simulation", "measurement", "count"] = "simulation"

    @property
    def sentence(self) -> str:
        """The finding as a plain sentence."""
        verdict = "bears out" if self.holds else "does not bear out"
        return f'{self.subject}: our {self.source} {verdict} "{self.paper}"; it gives {self.ours}.'


@dataclass(frozen=True)
class Chart:
    """Series over the same places, as groups of bars or as lines.

    Attributes:
        kind: ``bars`` over named places, ``lines`` over numbers, ``points`` without lines.
        places: Names of the groups, or the numbers on the horizontal axis.
        series: Values by name, one per place; None leaves a gap.
        spreads: Least and most per place, by a series' name, where it was run several times.
        areas: Of points, by a series' name; what they measure the title says.
        log_axes: Which axes of lines are logarithmic; what is drawn along them must be above 0.
    """

    title: str
    kind: Literal["bars", "lines", "points"]
    places: tuple[str, ...] | tuple[float, ...]
    series: Mapping[str, tuple[float | None, ...]]
    across: str
    up: str
    spreads: Mapping[str, tuple[tuple[float, float], ...]] | None = None
    log_axes: Literal["", "x", "xy"] = ""
    areas: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Drawn:
    """A figure made.

    Attributes:
        notes: What a reader must know of how it was made.
    """

    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


Make = Callable[[Bench], Drawn]
Kind = Literal["figure", "table"]
#: What a paper's author calls it: kind and number.
Label = tuple[Kind, int]


@dataclass(frozen=True)
class Figure:
    """A figure or a table of a paper that can be made again."""

    kind: Kind
    number: int
    title: str
    make: Make


@dataclass(frozen=True)
class Paper:
    """A paper of which figures and tables can be made again.

    Attributes:
        name: What is typed.
        heeds: What the command's flags can change, by the names of their parameters.
    """

    name: str
    heeds: tuple[str, ...]

    @property
    def figures(self) -> Mapping[Label, Figure]:
        """What can be made: figures, then tables, by number."""
        return dict(sorted(_FIGURES[self].items()))

    @property
    def runs(self) -> Mapping[Label, Figure]:
        """The same of what can be run on emulated devices."""
        return dict(sorted(_RUNS.get(self, {}).items()))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Whether figures can be made, or tables, or both."""
        return tuple(dict.fromkeys(kind for kind, _ in self.figures))


_FIGURES: dict[Paper, dict[Label, Figure]] = {}
_RUNS: dict[Paper, dict[Label, Figure]] = {}


def figure(
    paper: Paper, number: int, title: str, *, kind: Kind = "figure", real: bool = False
) -> Callable[[Make], Make]:
    """Add a function that makes a paper's figure, or its table; ``real`` ones run it."""
    made = _RUNS if real else _FIGURES

    def add(make: Make) -> Make:
        made.setdefault(paper, {})[kind, number] = Figure(kind, number, title, make)
        return make

    return add


def paper_names() -> tuple[str, ...]:
    """The papers of which figures can be made."""
    return tuple(sorted(paper.name for paper in _FIGURES))


def find_paper(name: str) -> Paper:
    """A paper by its name.

    Raises:
        InputError: It is unknown.
    """
    for paper in _FIGURES:
        if paper.name == name:
            return paper
    allowed = ", ".join(paper_names())
    raise InputError(f"Paper '{name}' is unknown; allowed: {allowed}.", subject=name)


def find_figures(name: str, labels: Sequence[Label] = (), *, real: bool = False) -> list[Figure]:
    """A paper's figures and tables in order; all without labels.

    Of a paper whose tables alone can be made, the number of a figure is that of a table.

    Raises:
        InputError: The paper is unknown, or nothing of that kind and number can be made.
    """
    paper = find_paper(name)
    known = paper.runs if real else paper.figures
    if paper.kinds == ("table",):
        labels = [("table", number) for _, number in labels]
    for kind, number in labels:
        if (kind, number) not in known:
            allowed = "; ".join(
                f"{each}s {', '.join(str(n) for k, n in known if k == each)}"
                for each in dict.fromkeys(each for each, _ in known)
            )
            done = "run on emulated devices" if real else "reproduced"
            raise InputError(
                f"{kind.capitalize()} {number} of '{name}' is not {done}; allowed: {allowed}.",
                subject=str(number),
            )
    return [known[label] for label in sorted(set(labels) or known)]
