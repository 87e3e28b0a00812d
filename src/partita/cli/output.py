"""What commands print: tables for people, one JSON object for programs, progress on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from partita.errors import InputError, PartitaError
from partita.files import write_whole

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


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """Print the reply and return its exit code."""
    if as_json:
        print(json.dumps(_finite(reply.payload), allow_nan=False, default=str))
    else:
        console = make_console()
        for item in reply.shown:
            console.print(item, highlight=False, markup=False, soft_wrap=isinstance(item, str))
    return reply.exit_code


def _finite(value: Any) -> Any:
    """Return a payload with null for numbers that JSON cannot hold."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def make_console(*, stderr: bool = False) -> Console:
    """Return a console; where the width is unknown, lines are long enough for tables."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 140)


def report_error(error: PartitaError, *, as_json: bool) -> int:
    """Print one line (or one JSON object) about an error and return its exit code."""
    message = " ".join(str(error).split())
    if as_json:
        told = {"kind": error.kind, "message": message, "subject": error.subject}
        print(json.dumps({"error": told}))
    else:
        print(f"partita: {message}", file=sys.stderr)
    return error.exit_code


def say(text: str) -> None:
    """Print a line of talk on stderr."""
    print(text, file=sys.stderr, flush=True)


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
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)

        def advance(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what[:40])

        yield advance


def write_output(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        InputError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise InputError(
            f"File '{path}' cannot be written: {error.strerror}.", subject=str(path)
        ) from error
