"""Models to try things with."""

from __future__ import annotations

from pathlib import Path

from partita.cli.output import Reply, check_output
from partita.errors import InputError
from partita.report import draw_table
from partita.report.tables import TableData
from partita.zoo import ZOO, build_model, find_model, write_model


def list_models() -> Reply:
    """The models on offer, with the input that their counts are for."""
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


def save_model(
    name: str | None, output: Path | None, seed: int, batch: int, size: int | None
) -> Reply:
    """Build a model and write it; ``size`` is height and width in pixels.

    Raises:
        InputError: No model is named, or no file that can be written.
        ModelError: The zoo has no such model.
    """
    if name is None:
        raise InputError(f"-o {output}: no model is named; allowed: {', '.join(ZOO)}.")
    entry = find_model(name)
    if output is None:
        raise InputError(f"Model '{name}' needs a file to go to: give -o FILE.", subject="-o")
    check_output(output)
    write_model(build_model(name, seed=seed, batch=batch, size=size), output)
    payload = {
        "name": name,
        "parameters": entry.parameters,
        "macs": entry.macs,
        "file": str(output),
    }
    line = f"{name}: {entry.parameters:,} parameters, seed {seed}, written to {output}"
    return Reply(payload, [line])
