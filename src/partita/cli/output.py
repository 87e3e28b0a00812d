"""What commands print: tables for people, one JSON object for programs, progress on stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from partita.errors import InputError, PartitaError
from partita.files import require_room, require_writable, write_folder, write_whole

#: Columns of what is piped where nothing says another number: the widest table fits.
_PIPED_WIDTH = 140

#: Shown where every line is JSON, as what is said is printed elsewhere.
_TALK = logging.getLogger("partita.cli")
_TALK.setLevel(logging.INFO)

Advance = Callable[[int, int, str], None]


@dataclass
class Reply:
    """A command's answer.

    Attributes:
        payload: The JSON object.
        shown: Tables and lines for people, with the same content.
        exit_code: 0, or what a check that failed returns.
    """

    payload: dict[str, Any]
    shown: list[RenderableType] = field(default_factory=list)
    exit_code: int = 0


def print_reply(reply: Reply, *, as_json: bool, stderr: bool = False) -> int:
    """Print the reply and return its exit code; on stderr where stdout has something else.

    Where all lines are JSON, it is one of them.
    """
    if as_json or tells_json():
        text = json.dumps(_finite(reply.payload), allow_nan=False, default=str)
        print(text, file=sys.stderr if stderr else sys.stdout, flush=True)
    else:
        console = make_console(stderr=stderr)
        for item in reply.shown:
            console.print(item, highlight=False, markup=False, soft_wrap=isinstance(item, str))
    return reply.exit_code


def _finite(value: object) -> object:
    """A payload with null for numbers that JSON cannot hold."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def make_console(*, stderr: bool = False) -> Console:
    """A console as wide as its terminal or ``COLUMNS`` says, else wide enough for tables."""
    stream = sys.stderr if stderr else sys.stdout
    is_known = stream.isatty() or os.environ.get("COLUMNS", "").strip("0").isdigit()
    return Console(stderr=stderr, width=None if is_known else _PIPED_WIDTH)


def report_error(error: PartitaError, *, as_json: bool) -> int:
    """Print one line (or one JSON object) about an error and return its exit code."""
    message = " ".join(str(error).split())
    if as_json:
        fields = {"kind": error.kind, "message": message, "subject": error.subject}
        print(json.dumps({"error": fields}))
    elif tells_json():
        _TALK.error(message)
    else:
        print(f"partita: {message}", file=sys.stderr)
    return error.exit_code


def say(text: str) -> None:
    """Print a line of talk on stderr."""
    if tells_json():
        _TALK.info(text)
    else:
        print(text, file=sys.stderr, flush=True)


class _JsonLines(logging.Formatter):
    """A line of JSON per message: time in UTC, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": when,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def tells_json() -> bool:
    """Whether every line is JSON: within :func:`json_lines`."""
    return any(isinstance(one.formatter, _JsonLines) for one in logging.getLogger().handlers)


@contextlib.contextmanager
def json_lines() -> Iterator[None]:
    """Let every line be JSON, for what collects logs: talk, logs, errors, replies.

    Warnings and failures of threads, which Python itself would print, are lines, too.
    """
    root, handler, hook = logging.getLogger(), logging.StreamHandler(), threading.excepthook
    handler.setFormatter(_JsonLines())
    root.addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = _log_failure
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.captureWarnings(False)
        root.removeHandler(handler)


def _log_failure(failure: threading.ExceptHookArgs) -> None:
    name = failure.thread.name if failure.thread else "of no name"
    _TALK.error("thread %s failed", name, exc_info=failure.exc_value)


@contextlib.contextmanager
def show_log(level: int) -> Iterator[None]:
    """Show on stderr what the program logs of itself, from a level of :mod:`logging` upwards."""
    log, handler = logging.getLogger("partita"), logging.StreamHandler()
    if log.level != logging.NOTSET:  # --debug shows everything already
        yield
        return
    if not tells_json():
        log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Advance]:
    """Show a progress bar on stderr; yield what moves it: done, total, what comes next."""
    console = make_console(stderr=True)
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    hidden = tells_json() or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)

        def advance(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what[:40])

        yield advance


@contextlib.contextmanager
def live_line(describe: Callable[[], str], *, hidden: bool = False) -> Iterator[None]:
    """Show on stderr, where that is a terminal, how things are: asked four times a second."""
    console = make_console(stderr=True)
    if hidden or tells_json() or not console.is_terminal:
        yield
        return
    show = Live(
        get_renderable=lambda: Text(describe()),
        console=console,
        transient=True,
        redirect_stdout=False,
    )
    with show:
        yield


def check_output(
    path: Path | None,
    *inputs: Path | str | None,
    inside: Path | None = None,
    beside: Path | None = None,
) -> None:
    """Refuse a place for an output before the work begins; None is no output.

    Args:
        inside: A folder in which nothing else may be.
        beside: Another output of the command.

    Raises:
        InputError: It is a folder, what the command reads or in that folder, what it writes beside,
            its own is missing, or no file can be made there.
    """
    if path is None:
        return
    _check_parent("File", "written", path)
    if path.is_dir():
        raise InputError(f"File '{path}' cannot be written: it is a folder.", subject=str(path))
    read = [Path(name) for name in inputs if name is not None]
    is_same = path.exists() and any(file.exists() and path.samefile(file) for file in read)
    parents = Path(os.path.realpath(path)).parents
    if is_same or (inside is not None and Path(os.path.realpath(inside)) in parents):
        raise InputError(
            f"File '{path}' is an input of this command; give the output another place.",
            subject=str(path),
        )
    if beside is not None and os.path.realpath(beside) == os.path.realpath(path):
        raise InputError(
            f"File '{path}' is another output of this command, too; give each a place of its own.",
            subject=str(path),
        )
    with _told("File", "written", path):
        require_writable(path)


def check_folder(path: Path | None, *, is_replaced: bool = False) -> None:
    """Refuse a place for a folder of outputs before the work begins; None is none.

    Args:
        is_replaced: Another folder takes its place, if it is there, and no files are put into it.

    Raises:
        InputError: It is a file, what it would lie in is not there, or nothing can be made in it.
    """
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise InputError(f"Folder '{path}' cannot be made: '{path}' is a file.", subject=str(path))
    _check_parent("Folder", "made", path)
    if path.exists() and not is_replaced:
        with _told("Folder", "written to", path):
            require_room(path)
        return
    with _told("Folder", "made", path):
        require_room(Path(os.path.realpath(path)).parent)


def _check_parent(what: str, done: str, path: Path) -> None:
    folder = path.parent
    if folder.is_dir():
        return
    fault = f"'{folder}' is a file" if folder.exists() else f"there is no folder '{folder}'"
    raise InputError(f"{what} '{path}' cannot be {done}: {fault}.", subject=str(path))


@contextlib.contextmanager
def _told(what: str, done: str, path: Path) -> Iterator[None]:
    """Turn the system's refusal of an output into our own."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{what} '{path}' cannot be {done}: {error.strerror}.", subject=str(path)
        ) from error


def cache_folder(name: str) -> Path:
    """A folder of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "partita" / name


def write_output(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        InputError: It cannot be written.
    """
    check_output(path)
    with _told("File", "written", path):
        write_whole(path, data)


def write_outputs(folder: Path, contents: Mapping[str, bytes], *, is_private: bool = False) -> None:
    """Write files into a folder, which is made where it is missing: all or none.

    Args:
        is_private: Whether nobody else may read them.

    Raises:
        InputError: They cannot be written.
    """
    with _told("Folder", "written to", folder):
        write_folder(folder, contents, is_private=is_private)
