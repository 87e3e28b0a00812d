"""The command line: ``partita <verb> <inputs> [--flags]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main", "start"]


def start() -> int:
    """Run the command line as a process of its own; Ctrl-C is told from the first import on."""
    try:
        from partita.cli.app import run_process
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            sys.stderr.write("partita: interrupted\n")
            return 130
        raise
    return run_process()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see :func:`partita.cli.app.main`."""
    from partita.cli.app import main as run

    return run(arguments)
