"""Bandwidth that varies in time, from a CSV file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from partita.execution.clock import RateChange
from partita.files import read_regular
from partita.units import parse_quantity

COLUMNS = ["time_s", "bandwidth"]
#: Least and most of a link.
BANDWIDTHS = ("1 bit/s", "10000 Gbit/s")


def read_trace(path: Path) -> tuple[RateChange, ...]:
    """The trace in ``path`` as ``(time_s, bytes_per_s)`` points.

    The file has the columns ``time_s`` (seconds from the run's start, increasing) and ``bandwidth``
    (with its unit, such as ``50 Mbit/s``).

    Raises:
        ValueError: The file is missing or a line breaks a rule; the message names the line.
    """
    try:
        content = read_regular(path).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(content, newline=""), skipinitialspace=True))
    except OSError as error:
        raise ValueError(f"trace {str(path)!r} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"trace {str(path)!r} is no CSV file: {error}") from error
    if not rows or [cell.strip() for cell in rows[0]] != COLUMNS:
        raise ValueError(f"trace {str(path)!r} line 1 must be {','.join(COLUMNS)}")
    points: list[RateChange] = []
    for line, row in enumerate(rows[1:], start=2):
        if row:
            points.append(_read_point(path, line, row, points[-1][0] if points else -1.0))
    if not points:
        raise ValueError(f"trace {str(path)!r} has no point")
    return tuple(points)


def _read_point(path: Path, line: int, row: list[str], before_s: float) -> RateChange:
    where = f"trace {str(path)!r} line {line}"
    if len(row) != len(COLUMNS):
        raise ValueError(f"{where} has {len(row)} cells, {len(COLUMNS)} needed")
    try:
        time_s, rate = float(row[0]), parse_quantity(row[1], "bandwidth")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if not before_s < time_s < float("inf") or time_s < 0:
        raise ValueError(f"{where}: time {row[0].strip()} s must be above the line before")
    least, most = (parse_quantity(text, "bandwidth") for text in BANDWIDTHS)
    if not least <= rate <= most:
        raise ValueError(f"{where}: bandwidth must be from {' to '.join(BANDWIDTHS)}")
    return time_s, rate
