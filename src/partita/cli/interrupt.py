"""Ctrl-C: how it is recognised and what it ends with."""

from __future__ import annotations

#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130


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
