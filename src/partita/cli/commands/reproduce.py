"""``partita reproduce``: the figures of a paper, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_SECONDS, flag, list_given, number
from partita.cli.output import check_folder, print_reply


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER", help="autosplit, collaborative, distredge, loading or separable."
        ),
    ],
    context: typer.Context,
    figure: Annotated[
        list[int] | None,
        flag("--figure", "Number of a figure; everything by default. Repeatable."),
    ] = None,
    table: Annotated[
        list[int] | None,
        flag("--table", "Number of a table; everything by default. Repeatable."),
    ] = None,
    models: Annotated[str, flag("--models", "For figures over models: names with commas.")] = "",
    seeds: Annotated[str, flag("--seeds", "Of methods that draw, such as 0-4 or 0,7.")] = "0",
    episodes: Annotated[
        int | None, flag("--episodes", "Of learning methods; each method's own by default.")
    ] = None,
    budget: Annotated[
        float, number("--budget", 0, MOST_SECONDS, "Most seconds that best may search.")
    ] = 60.0,
    images: Annotated[
        int, number("--images", 1, 1_000_000, "Images in a stream; 5000 there.")
    ] = 100,
    repeats: Annotated[
        int, number("--repeats", 1, 1000, "Draws per value in Figure 5; 50 there.")
    ] = 50,
    trials: Annotated[
        int, number("--trials", 1, 1000, "Processes per model and way to load.")
    ] = 10,
    real: Annotated[
        bool, flag("--real", "Run on emulated devices; what was predicted beside it.")
    ] = False,
    cold: Annotated[bool, flag("--cold", "Load from disk, not from the page cache.")] = False,
    cache: Annotated[Path | None, flag("--cache", "Folder where results are kept.")] = None,
    output: Annotated[Path | None, flag("--output", "Folder for charts (PNG).", "-o")] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Make a paper's figures and tables again, simulated or measured, its claims beside ours."""
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
        real=real,
        cold=cold,
    )
    labels: list[action.Label] = [("figure", number) for number in figure or ()]
    labels += [("table", number) for number in table or ()]
    reply = action.make_figures(paper, labels, study, cache, output)
    return print_reply(reply, as_json=json)
