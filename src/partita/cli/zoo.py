"""``partita zoo``: models to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to

if TYPE_CHECKING:
    from partita.cli.output import Reply


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("zoo")
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
        from partita.cli.output import Reply, print_reply
        from partita.errors import InputError, ModelError
        from partita.zoo import ZOO, build_model, write_model

        if name is None and output is not None:
            raise InputError(f"-o {output}: no model is named; allowed: {', '.join(ZOO)}.")
        if name is None:
            return print_reply(list_models(), as_json=json)
        if name not in ZOO:
            raise ModelError(f"Model '{name}' is not in the zoo, which has: {', '.join(ZOO)}.")
        if output is None:
            raise InputError(f"Model '{name}' needs a file to go to: give -o FILE.", subject="-o")
        write_model(build_model(name, seed=seed, batch=batch, size=size), output)
        entry = ZOO[name]
        payload = {
            "name": name,
            "parameters": entry.parameters,
            "macs": entry.macs,
            "file": str(output),
        }
        line = f"{name}: {entry.parameters:,} parameters, seed {seed}, written to {output}"
        return print_reply(Reply(payload, [line]), as_json=json)


def list_models() -> Reply:
    """Return the models on offer, with the input that their counts are for."""
    from partita.cli.output import Reply
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.zoo import ZOO

    models = [
        {"name": e.name, "input": e.shape, "parameters": e.parameters, "macs": e.macs}
        for e in ZOO.values()
    ]
    rows = tuple(
        (e.name, "x".join(map(str, e.shape)), f"{e.parameters:,}", f"{e.macs / 1e9:.3f}")
        for e in ZOO.values()
    )
    table = draw_table(TableData("Zoo", ("name", "input", "parameters", "GMAC"), rows))
    return Reply({"models": models}, [table])
