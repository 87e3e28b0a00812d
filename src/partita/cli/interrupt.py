"""Ctrl-C and SIGTERM: how they end a command, and with which code."""

from __future__ import annotations

import os
import signal
import sys

#: See :mod:`partita`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130
#: What ends a service as it should.
ENDING = (signal.SIGTERM, signal.SIGINT)
#: What ends a command by unwinding it: Ctrl-C, SIGTERM, the end of its terminal.
_UNWINDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Those that end it with a code of their own, by that.
_CODES = {128 + number: number for number in _UNWINDING[1:]}
#: A signal that comes while a module is imported is heeded so long after that at most. Not tuned.
_AGAIN_S = 0.01
#: How the files of Python's own import machinery are called in stack frames.
_IMPORT = "<frozen importlib"
#: Signals that wait for the end of an import.
_postponed: list[int] = []
#: What the process does not wait for at its end.
_abandoned: list[str] = []


def unwind_at_signals() -> None:
    """Let signals end this process by unwinding it, so that nothing half-written is left.

    What :func:`signal.signal` says applies: the main thread alone can call this.
    """
    signal.signal(signal.SIGALRM, _try_again)
    for number in _UNWINDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _unwind)


def _unwind(number: int, frame: FrameType | None, *, is_again: bool = False) -> None:
    """Raise, but in no import: what is raised there may be swallowed, or told with a traceback.

    A second signal is not postponed: a module of the user's own may hang.
    """
    is_first = is_again or not _postponed
    if is_first and _is_importing(frame):
        _postponed[:] = [number]
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    _postponed.clear()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _try_again(_: int, frame: FrameType | None) -> None:
    for number in _postponed[:]:
        _unwind(number, frame, is_again=True)


def heed_postponed() -> None:
    """Raise for a signal that came while a module was imported, where it has not raised yet."""
    _try_again(signal.SIGALRM, None)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORT):
            return True
        frame = frame.f_back
    return False


def run_service(serve: Callable[[Callable[[], None]], int], tell_early: Callable[[], None]) -> int:
    """The exit code of what runs until a signal ends it: 0 then, whatever it was at.

    That holds from here on, for the imports and the start of the service, too; a signal that came
    before, while the command line was read, ends it as it ends every command.

    Args:
        serve: Runs it; calls what it is given once it is there.
        tell_early: Called where it ends before.
    """
    started: list[bool] = []
    heed_postponed()
    try:
        try:
            return serve(lambda: started.append(True))
        except Exception:
            heed_postponed()  # it came first
            raise
    except BaseException as error:
        if signal_of(error) not in ENDING:
            raise
        abandon("what may never answer")
        if not started:
            tell_early()
        return 0


def abandon(what: str) -> None:
    """Let the process end without waiting for threads that may take long, or for ever."""
    _abandoned.append(what)


def leave(code: int) -> int:
    """The exit code; after Ctrl-C, or where something was abandoned, the process ends here.

    Threads that still load, or wait for what never comes, hold up nobody.
    """
    from contextlib import suppress  # loaded by now

    if code == INTERRUPTED or _abandoned:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def is_interrupted(error: BaseException) -> bool:
    """Whether an error came of Ctrl-C."""
    return signal_of(error) == signal.SIGINT


def signal_of(error: BaseException) -> int | None:
    """The signal that an error came of: what is cleaned up, or imported, may fail by it in turn."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, KeyboardInterrupt):
            return signal.SIGINT
        if isinstance(cause, SystemExit) and cause.code in _CODES:
            return _CODES[cause.code]
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return None
