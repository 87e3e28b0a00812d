"""Reading one table of a TOML file: every broken rule is collected, none stops the reading.

By hand, since msgspec ends at the first broken rule (it names 1 of 4 where this names all), and
pydantic, which does not, takes 0.25 s and 5 MB to import and knows neither units nor addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.naming import (
    ADDRESS_RULE,
    ENDPOINT_RULE,
    NAME_RULE,
    is_endpoint,
    is_name,
    parse_address,
)
from partita.units import Quantity, parse_quantity

Parser = Callable[[object], Any]

MAX_SLOW_DOWN = 10_000
#: Stands for any device, in place of a name.
ANY = "*"


@dataclass(frozen=True)
class Field:
    """One key: how its value is read, and whether it must be there."""

    parse: Parser
    required: bool = False


def read_table(
    table: object, fields: Mapping[str, Field], where: str, faults: list[str]
) -> dict[str, Any]:
    """The parsed values of ``table``; rules it breaks are appended to ``faults``.

    Args:
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


def list_tables(value: object, where: str, faults: list[str]) -> list[tuple[str, object]]:
    """Each ``[[where]]`` table with its key for messages."""
    if not isinstance(value, list):
        faults.append(f"{where}: must be written as [[{where}]]")
        return []
    return [(f"{where}[{index}]", table) for index, table in enumerate(value)]


def _allowing(is_allowed: Callable[[Any], bool], rule: str) -> Parser:
    """A parser of values as they are; others break the rule."""

    def parse(value: object) -> Any:
        if not is_allowed(value):
            raise ValueError(f"{value!r} {rule}")
        return value

    return parse


def _is_number(value: object, kinds: Any = int | float) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


#: A string that is not empty.
text = _allowing(
    lambda value: isinstance(value, str) and value != "",
    "must be a text in quotes that is not empty",
)
#: A name that the network takes.
name = _allowing(
    lambda value: isinstance(value, str) and is_name(value),
    f"cannot be a name; allowed are {NAME_RULE}",
)
#: A name, or what stands for all that no entry names.
name_or_any = _allowing(
    lambda value: isinstance(value, str) and (value == ANY or is_name(value)),
    f"cannot be a name; allowed are {NAME_RULE}, or {ANY!r} for strangers",
)
#: An address of the network.
address = _allowing(
    lambda value: isinstance(value, str) and parse_address(value) is not None,
    f"cannot be an address; allowed is {ADDRESS_RULE}",
)
#: The URL of a model that is served.
endpoint = _allowing(
    lambda value: isinstance(value, str) and is_endpoint(value),
    f"cannot be an endpoint; allowed is {ENDPOINT_RULE}",
)
yes_or_no = _allowing(
    lambda value: isinstance(value, bool), "must be true or false, without quotes"
)

#: A table, whose keys are checked by their own names.
table_of = _allowing(lambda value: isinstance(value, dict), "must be a table")


def factor(value: object) -> float:
    """A number from 1 to ``MAX_SLOW_DOWN``.

    Raises:
        ValueError: It is something else.
    """
    rule = f"must be a number without unit from 1 to {MAX_SLOW_DOWN}"
    return float(_allowing(lambda v: _is_number(v) and 1 <= v <= MAX_SLOW_DOWN, rule)(value))


def one_of(allowed: Sequence[str]) -> Parser:
    """A parser of one of the ``allowed`` words."""
    return _allowing(lambda value: value in allowed, f"is unknown; known are {', '.join(allowed)}")


def list_of(parser: Parser, count: int | None = None) -> Parser:
    """A parser of a list, of exactly ``count`` entries where given."""

    def parse(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{value!r} must be a list that is not empty")
        if count is not None and len(value) != count:
            raise ValueError(f"{value!r} has {len(value)} entries, must have {count}")
        return tuple(parser(item) for item in value)

    return parse


def whole(minimum: int, maximum: int) -> Parser:
    """A parser of a whole number from ``minimum`` to ``maximum``."""
    rule = f"must be a whole number from {minimum} to {maximum}"
    return _allowing(lambda value: _is_number(value, int) and minimum <= value <= maximum, rule)


def quantity(kind: Quantity, least: str, most: str) -> Parser:
    """A parser of a text with unit into SI, from ``least`` to ``most``."""
    low, high = parse_quantity(least, kind), parse_quantity(most, kind)

    def parse(value: object) -> float:
        number = parse_quantity(value, kind)
        if not low <= number <= high:
            raise ValueError(f"{value!r} must be from {least} to {most}")
        return number

    return parse
