"""The command line: ``partita <verb> <inputs> [--flags]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main", "start"]

#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130


def start() -> int:
    """Run the command line as a process of its own; Ctrl-C is told from the first import on."""
    try:
        from partita.cli.app import run_process
    except BaseException as error:
        if is_interrupted(error):
            sys.stderr.write("partita: interrupted\n")
            return INTERRUPTED
        raise
    return run_process()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see :func:`partita.cli.app.main`."""
    from partita.cli.app import main as run

    return run(arguments)


def is_interrupted(error: BaseException) -> bool:
    """Whether an error came of Ctrl-C: what is cleaned up, or imported, may fail by it in turn."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, KeyboardInterrupt):
            return True
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return False
