"""``partita reproduce``: the figures of a paper, ours beside theirs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import BudgetOpt, DebugOpt, JsonOpt, from_to

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MOST_SEEDS = 1000


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("reproduce")
    def reproduce(
        paper: Annotated[str, typer.Argument(metavar="PAPER", help="distredge or loading.")],
        context: typer.Context,
        figure: Annotated[
            list[int] | None,
            typer.Option(
                "--figure",
                help="Number of a figure, with loading of a table; all by default. Repeatable.",
            ),
        ] = None,
        models: Annotated[
            str, typer.Option("--models", help="For figures over models: names with commas.")
        ] = "",
        seeds: Annotated[
            str, typer.Option("--seeds", help="Of methods that draw, such as 0-4 or 0,7.")
        ] = "0",
        episodes: Annotated[
            int | None,
            typer.Option("--episodes", help="Of learning methods; each method's own by default."),
        ] = None,
        budget: BudgetOpt = 60.0,
        images: Annotated[
            int,
            typer.Option(
                "--images", callback=from_to(1, 1_000_000), help="Images in a stream; 5000 there."
            ),
        ] = 100,
        repeats: Annotated[
            int,
            typer.Option(
                "--repeats",
                callback=from_to(1, 1000),
                help="Draws per value in Figure 5; 50 there.",
            ),
        ] = 50,
        trials: Annotated[
            int,
            typer.Option(
                "--trials", callback=from_to(1, 1000), help="Processes per model and way to load."
            ),
        ] = 10,
        cold: Annotated[
            bool, typer.Option("--cold", help="Load from disk, not from the page cache.")
        ] = False,
        cache: Annotated[
            Path | None, typer.Option("--cache", help="Folder where results are kept.")
        ] = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="Folder for charts (PNG).")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Make a paper's figures again, simulated or measured, its claims beside ours."""
        from partita.cli.output import check_folder, print_reply
        from partita.reproduce import ResultCache, Study, find_figures, find_paper

        check_folder(output)
        check_folder(cache)
        chosen = find_paper(paper)
        check_heeded(chosen, context)
        if episodes is not None and episodes < 1:
            raise typer.BadParameter(f"--episodes is {episodes}, must be at least 1")
        study = Study(
            models=parse_models(models),
            seeds=parse_seeds(seeds),
            episodes=episodes,
            budget_s=budget,
            images=images,
            repeats=repeats,
            trials=trials,
            cold=cold,
        )
        figures = find_figures(paper, figure or ())
        kept = ResultCache(cache or usual_cache())
        return print_reply(make_figures(chosen, figures, study, kept, output), as_json=json)


#: What all papers heed.
_COMMON = ("paper", "figure", "output", "json", "debug")


def check_heeded(paper: Any, context: Any) -> None:
    """Return when every flag that was given changes something of this paper.

    Raises:
        InputError: One does not.
    """
    from partita.errors import InputError

    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in (*_COMMON, *paper.heeds):
            heeded = ", ".join(f"--{name}" for name in ("figure", *paper.heeds))
            raise InputError(
                f"--{parameter.name} changes nothing of '{paper.name}'; allowed: {heeded}.",
                subject=f"--{parameter.name}",
            )


def parse_models(text: str) -> tuple[str, ...]:
    """Return the names of a text with commas; none where it is empty.

    Raises:
        ModelError: The zoo has no such model.
    """
    from partita.errors import ModelError
    from partita.zoo import ZOO

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in ZOO:
            raise ModelError(
                f"Model '{name}' is not in the zoo, which has: {', '.join(ZOO)}.", subject=name
            )
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a text such as ``0-4`` or ``0,7``, each once, in order.

    Raises:
        InputError: It is something else.
    """
    from partita.errors import InputError

    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MOST_SEEDS:
            raise InputError(
                f"--seeds '{text}' is not understood; allowed: 0-4, or 0,2,7.", subject=text
            )
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def usual_cache() -> Path:
    """Return where results are kept unless told: a folder of the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "partita" / "reproduce"


def make_figures(paper: Any, figures: Any, study: Any, kept: Any, folder: Path | None) -> Any:
    """Return the reply with all figures; charts are written as soon as theirs is made."""
    from partita.cli.output import Reply, progress_bar, say
    from partita.report.text import draw_table
    from partita.reproduce import Bench

    reply = Reply({"paper": paper.name, "tables": [], "claims": [], "notes": [], "files": []})
    with progress_bar("reproducing") as advance:
        for place, figure in enumerate(figures):

            def tell(what: str, done: int = place) -> None:
                advance(done, len(figures), what)

            say(f"{paper.kind} {figure.number}: {figure.title}")
            drawn = figure.make(Bench(study, cache=kept, advance=tell))
            reply.payload["tables"] += [_describe(drawn.number, table) for table in drawn.tables]
            reply.payload["claims"] += [
                {"figure": drawn.number, "subject": c.subject, "paper": c.paper, "ours": c.ours}
                | {"holds": c.holds}
                for c in drawn.claims
            ]
            notes = (*drawn.notes, *_warn_of(study))
            reply.payload["notes"] += notes
            reply.shown += [draw_table(_show(table)) for table in drawn.tables]
            reply.shown += [*(claim.sentence for claim in drawn.claims), *notes, ""]
            if folder is not None and drawn.charts:
                name = f"{paper.name}-{paper.kind}-{drawn.number}.png"
                _write_chart(reply, folder / name, drawn.charts)
    return reply


def _warn_of(study: Any) -> list[str]:
    if study.episodes is None:
        return []
    return [
        f"Methods that learn were trained for {study.episodes} episodes in place of their own"
        " number: what is said of them above holds for so much training only."
    ]


def _write_chart(reply: Any, path: Path, charts: Any) -> None:
    from partita.cli.output import write_output
    from partita.reproduce.chart import draw_charts

    write_output(path, draw_charts(charts))
    reply.payload["files"].append(str(path))
    reply.shown.append(f"Chart written to {path}")


def _describe(number: int, table: Any) -> dict[str, Any]:
    return {
        "figure": number,
        "title": table.title,
        "columns": list(table.columns),
        "rows": [list(row) for row in table.rows],
    }


def _show(table: Any) -> Any:
    """Return a table with its numbers as text."""
    from partita.report.tables import NOTHING, TableData

    def cell(value: object) -> str:
        if value is None:
            return NOTHING
        if not isinstance(value, float):
            return str(value)
        is_large = abs(value) + 0.5 >= 10**table.digits  # no powers of ten
        return f"{value:.0f}" if is_large else f"{value:.{table.digits}g}"

    rows = tuple(tuple(cell(value) for value in row) for row in table.rows)
    return TableData(table.title, table.columns, rows, table.text_columns)
