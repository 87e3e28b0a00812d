"""Ctrl-C: how it is recognised and what it ends with."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130
#: What the process does not wait for at its end.
_abandoned: list[str] = []


def abandon(what: str) -> None:
    """Let the process end without waiting for threads that may take long, or for ever."""
    _abandoned.append(what)


def leave(code: int) -> int:
    """The exit code; after Ctrl-C, or where something was abandoned, the process ends here.

    Threads that still load, or wait for what never comes, hold up nobody.
    """
    if code == INTERRUPTED or _abandoned:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


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
