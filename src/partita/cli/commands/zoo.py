"""``partita zoo``: models to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to
from partita.cli.output import print_reply


def zoo(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Model to build; none lists them.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="ONNX file to write.")
    ] = None,
    seed: SeedOpt = 0,
    batch: Annotated[
        int, typer.Option("--batch", callback=from_to(1, 4096), help="Images per input.")
    ] = 1,
    size: Annotated[
        int | None,
        typer.Option("--size", callback=from_to(1, 16384), help="Height and width in pixels."),
    ] = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """List the models, or build one with weights from a seed."""
    from partita.cli.actions.zoo import list_models, save_model

    if name is None and output is None:
        return print_reply(list_models(), as_json=json)
    return print_reply(save_model(name, output, seed, batch, size), as_json=json)
