"""The figures of a paper, ours beside theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from partita.cli.output import Reply, cache_folder, progress_bar, say, write_outputs
from partita.errors import InputError
from partita.report import draw_table
from partita.report.tables import NOTHING, TableData
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.figure import Cell, Drawn, Figure, Label, Table
from partita.reproduce.papers import find_figures, find_paper
from partita.reproduce.study import Study
from partita.zoo import find_model

__all__ = ["Label", "Study", "check_heeded", "make_figures", "parse_models", "parse_seeds"]

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MOST_SEEDS = 1000
#: Parameters of the command that every paper heeds.
_COMMON = ("paper", "output", "json", "debug")


def check_heeded(paper: str, given: Sequence[str]) -> None:
    """Raise unless every parameter that was given changes something of this paper.

    Raises:
        InputError: One does not, or the paper is unknown.
    """
    chosen = find_paper(paper)
    heeds = (*chosen.kinds, *chosen.heeds)
    for name in given:
        if name == "figure" and "figure" not in heeds:
            continue  # what tables alone can be made of: the number of a table
        if name not in (*_COMMON, *heeds):
            allowed = ", ".join(f"--{flag}" for flag in heeds)
            raise InputError(
                f"--{name} changes nothing of '{paper}'; allowed: {allowed}.", subject=f"--{name}"
            )


def parse_models(text: str) -> tuple[str, ...]:
    """The names of a text with commas; none where it is empty.

    Raises:
        ModelError: The zoo has no such model.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        find_model(name)
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of a text such as ``0-4`` or ``0,7``, each once, in order.

    Raises:
        InputError: It is something else.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MOST_SEEDS:
            raise InputError(
                f"--seeds '{text}' is not understood; allowed: 0-4, or 0,2,7.", subject=text
            )
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def make_figures(
    name: str, labels: Sequence[Label], study: Study, cache: Path | None, folder: Path | None
) -> Reply:
    """The figures and tables of a paper; each chart is written as soon as it is drawn.

    Args:
        name: Of the paper.
        labels: Of its figures and tables; all where there are none.
        cache: Folder where results are kept; the user's cache where None.
        folder: Of the charts; None writes none.

    Raises:
        InputError: There is no such paper or figure.
    """
    figures = find_figures(name, labels, real=study.real)
    results = ResultCache(cache or cache_folder("reproduce"))
    reply = Reply({"paper": name, "tables": [], "claims": [], "notes": [], "files": []})
    with progress_bar("reproducing") as advance:
        for place, figure in enumerate(figures):

            def tell(what: str, done: int = place) -> None:
                advance(done, len(figures), what)

            say(f"{figure.kind} {figure.number}: {figure.title}")
            drawn = figure.make(Bench(study, cache=results, advance=tell))
            _add_figure(reply, figure, drawn, study)
            if folder is not None and drawn.charts:
                run = "-run" if study.real else ""
                path = folder / f"{name}-{figure.kind}-{figure.number}{run}.png"
                _write_chart(reply, path, drawn)
    return reply


def _add_figure(reply: Reply, figure: Figure, drawn: Drawn, study: Study) -> None:
    """Add what a figure's tables, claims and notes say."""
    reply.payload["tables"] += [
        {
            figure.kind: figure.number,
            "title": table.title,
            "columns": list(table.columns),
            "rows": [list(row) for row in table.rows],
        }
        for table in drawn.tables
    ]
    reply.payload["claims"] += [
        {
            figure.kind: figure.number,
            "subject": claim.subject,
            "paper": claim.paper,
            "ours": claim.ours,
            "holds": claim.holds,
        }
        for claim in drawn.claims
    ]
    notes = list(drawn.notes)
    if study.episodes is not None:
        notes.append(
            f"Methods that learn were trained for {study.episodes} episodes in place of their own"
            " number: what is said of them above holds for so much training only."
        )
    reply.payload["notes"] += notes
    reply.shown += [draw_table(format_table(table)) for table in drawn.tables]
    reply.shown += [*(claim.sentence for claim in drawn.claims), *notes, ""]


def _write_chart(reply: Reply, path: Path, drawn: Drawn) -> None:
    from partita.reproduce.chart import draw_charts  # Matplotlib takes long to load

    write_outputs(path.parent, {path.name: draw_charts(drawn.charts)})
    reply.payload["files"].append(str(path))
    reply.shown.append(f"Chart written to {path}")


def format_table(table: Table) -> TableData:
    """A table with its numbers as text."""

    def cell(value: Cell) -> str:
        if value is None:
            return NOTHING
        if not isinstance(value, float):
            return str(value)
        is_large = abs(value) + 0.5 >= 10**table.digits  # no powers of ten
        return f"{value:.0f}" if is_large else f"{value:.{table.digits}g}"

    rows = tuple(tuple(cell(value) for value in row) for row in table.rows)
    return TableData(table.title, table.columns, rows, table.text_columns)
