"""``partita reproduce``: the figures of a paper, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import BudgetOpt, DebugOpt, JsonOpt, from_to, list_given
from partita.cli.output import check_folder, print_reply


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
            "--repeats", callback=from_to(1, 1000), help="Draws per value in Figure 5; 50 there."
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
    from partita.cli.actions import reproduce as action

    check_folder(output)
    check_folder(cache)
    action.check_heeded(paper, list_given(context))
    if episodes is not None and episodes < 1:
        raise typer.BadParameter(f"--episodes is {episodes}, must be at least 1")
    study = action.Study(
        models=action.parse_models(models),
        seeds=action.parse_seeds(seeds),
        episodes=episodes,
        budget_s=budget,
        images=images,
        repeats=repeats,
        trials=trials,
        cold=cold,
    )
    reply = action.make_figures(paper, figure or (), study, cache, output)
    return print_reply(reply, as_json=json)
