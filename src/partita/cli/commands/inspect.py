"""``partita inspect``: what a model is made of and how it can be divided."""

from __future__ import annotations

from partita.cli import flags
from partita.cli.output import print_reply


def inspect(
    model: flags.ModelArg,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Show layers, shapes, work, weights, legal cuts, and what can be split how."""
    from partita.cli.actions.inspect import inspect_model

    return print_reply(inspect_model(model, shape), as_json=json)
