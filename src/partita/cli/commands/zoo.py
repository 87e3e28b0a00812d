"""``partita zoo``: models to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number
from partita.cli.output import print_reply


def zoo(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Model to build; none lists them.")
    ] = None,
    output: Annotated[Path | None, flag("--output", "ONNX file to write.", "-o")] = None,
    seed: flags.SeedOpt = 0,
    batch: Annotated[int, number("--batch", 1, 4096, "Images per input.")] = 1,
    size: Annotated[int | None, number("--size", 1, 16384, "Height and width in pixels.")] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """List the models, or build one with weights from a seed."""
    from partita.cli.actions.zoo import list_models, save_model

    if name is None and output is None:
        return print_reply(list_models(), as_json=json)
    return print_reply(save_model(name, output, seed, batch, size), as_json=json)
