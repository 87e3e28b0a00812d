"""The command line: ``partita <verb> <inputs> [--flags]``."""

from __future__ import annotations

import sys

from partita.cli.interrupt import INTERRUPTED, is_interrupted, unwind_at_signals

#: See :mod:`partita`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "start"]


def start() -> int:
    """Run the command line as a process of its own; Ctrl-C is told from the first import on."""
    try:
        unwind_at_signals()
        from partita.cli.app import run_process

        return run_process()
    except BaseException as error:
        if is_interrupted(error):
            sys.stderr.write("partita: interrupted\n")
            return INTERRUPTED
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see :func:`partita.cli.app.main`."""
    from partita.cli.app import main as run

    return run(arguments)
