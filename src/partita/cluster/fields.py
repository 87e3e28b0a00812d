"""Reading one table of a TOML file: every broken rule is collected, none stops the reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.units import Quantity, parse_quantity

Parser = Callable[[object], Any]


@dataclass(frozen=True)
class Field:
    """One key: how its value is read, and whether it must be there."""

    parse: Parser
    required: bool = False


def read_table(
    table: object, fields: Mapping[str, Field], where: str, faults: list[str]
) -> dict[str, Any]:
    """Return the parsed values of ``table``; rules it breaks are appended to ``faults``.

    Args:
        table: What TOML gave.
        fields: The keys allowed.
        where: The table's own key, such as ``device[1]``, for the messages.
        faults: Grows by one entry per broken rule.
    """
    if not isinstance(table, dict):
        faults.append(f"{where}: must be a table")
        return {}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            faults.append(f"{where}.{key}: unknown key; allowed are {', '.join(fields)}")
            continue
        try:
            values[key] = fields[key].parse(value)
        except ValueError as error:
            faults.append(f"{where}.{key}: {error}")
    for key, entry in fields.items():
        if entry.required and key not in table:
            faults.append(f"{where}.{key}: missing")
    return values


def text(value: object) -> str:
    """Return a string that is not empty.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} must be a text in quotes that is not empty")
    return value


def one_of(allowed: Sequence[str]) -> Parser:
    """Return a parser of one of the ``allowed`` words."""

    def parse(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is unknown; known are {', '.join(allowed)}")
        return str(value)

    return parse


def list_of(parser: Parser, count: int | None = None) -> Parser:
    """Return a parser of a list, of exactly ``count`` entries where given."""

    def parse(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{value!r} must be a list that is not empty")
        if count is not None and len(value) != count:
            raise ValueError(f"{value!r} has {len(value)} entries, must have {count}")
        return tuple(parser(item) for item in value)

    return parse


def whole(minimum: int) -> Parser:
    """Return a parser of a whole number of at least ``minimum``."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ValueError(f"{value!r} must be a whole number of at least {minimum}")
        return value

    return parse


def factor(value: object) -> float:
    """Return a number of at least 1.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value < 1e9:
        raise ValueError(f"{value!r} must be a number without unit of at least 1")
    return float(value)


def quantity(kind: Quantity, *, above_zero: bool = False) -> Parser:
    """Return a parser of a text with unit into SI."""

    def parse(value: object) -> float:
        number = parse_quantity(value, kind)
        if above_zero and number <= 0:
            raise ValueError(f"{value!r} must be above 0")
        return number

    return parse
