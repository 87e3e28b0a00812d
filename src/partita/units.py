"""Quantities with units: the one place where text such as ``200 Mbit/s`` becomes SI numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

Quantity = Literal["bandwidth", "bytes", "time", "frequency", "rate", "power", "clock"]

#: Factor to the SI unit of each quantity: bytes/s, bytes, seconds, times/s,
#: multiply-accumulates/s, watts, hertz.
UNITS: dict[Quantity, dict[str, float]] = {
    "bandwidth": {
        "bit/s": 1 / 8,
        "kbit/s": 1e3 / 8,
        "Mbit/s": 1e6 / 8,
        "Gbit/s": 1e9 / 8,
        "B/s": 1.0,
        "kB/s": 1e3,
        "MB/s": 1e6,
        "GB/s": 1e9,
    },
    "bytes": {
        "B": 1.0,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
    },
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0},
    "frequency": {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600},
    "rate": {"MAC/s": 1.0, "MMAC/s": 1e6, "GMAC/s": 1e9, "TMAC/s": 1e12},
    "power": {"W": 1.0, "mW": 1e-3},
    "clock": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
}

_NUMBER = re.compile(r"^\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*$")


def parse_quantity(text: object, quantity: Quantity) -> float:
    """``text`` in SI units, which may be below zero: what is allowed is for the caller to say.

    Args:
        text: A number with its unit, such as ``"200 Mbit/s"`` or ``"2 ms"``.
        quantity: Which kind of unit is allowed.

    Raises:
        ValueError: The unit is missing or unknown (the message lists those allowed), or the number
            is too large.

    >>> parse_quantity("200 Mbit/s", "bandwidth")
    25000000.0
    """
    allowed = ", ".join(UNITS[quantity])
    match = _NUMBER.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit; allowed units: {allowed}")
    number, unit = match.groups()
    if unit not in UNITS[quantity]:
        what = f"unit {unit!r} is unknown" if unit else f"{text!r} has no unit"
        raise ValueError(f"{what}; allowed units: {allowed}")
    value = float(number) * UNITS[quantity][unit]
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large a number")
    return value


def write_quantity(value: float, quantity: Quantity, units: Sequence[str]) -> str:
    """The text that :func:`parse_quantity` reads as exactly ``value``, in few digits.

    Args:
        value: At least 0, in SI units.
        units: Those to write it in, the largest first; where none of them is exact, the SI unit is.

    >>> write_quantity(25e6, "bandwidth", ("Gbit/s", "Mbit/s", "kbit/s"))
    '200 Mbit/s'
    """
    factors = UNITS[quantity]
    reached = [unit for unit in units if value >= factors[unit]] or units
    exact = [
        (number, unit)
        for unit in reached
        if (number := _divide_exactly(value, factors[unit])) is not None
    ]
    base = next(unit for unit, factor in factors.items() if factor == 1)
    number, unit = min(
        exact, key=lambda text: len(text[0].replace(".", "")), default=(repr(value), base)
    )
    return f"{number} {unit}"


def _divide_exactly(value: float, factor: float) -> str | None:
    """The number that times ``factor`` is ``value`` after rounding, where there is one."""
    quotient = value / factor
    near = (quotient, math.nextafter(quotient, math.inf), math.nextafter(quotient, 0.0))
    exact = (repr(number).removesuffix(".0") for number in near if number * factor == value)
    return next(exact, None)


def format_seconds(value_s: float) -> str:
    """A duration for people, with three significant digits.

    >>> format_seconds(0.01234)
    '12.3 ms'
    """
    return _scaled(value_s, {"s": 1.0, "ms": 1e-3}) or f"{value_s * 1e6:.3g} us"


def format_bytes(value_bytes: float) -> str:
    """A size for people, in decimal units.

    >>> format_bytes(1_500_000)
    '1.5 MB'
    """
    return _scaled(value_bytes, {"GB": 1e9, "MB": 1e6, "kB": 1e3}) or f"{value_bytes:.0f} B"


def format_count(number: int, thing: str) -> str:
    """So many of a thing whose plural ends in s.

    >>> format_count(1, "plan"), format_count(20, "plan")
    ('1 plan', '20 plans')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def format_enough_bytes(value_bytes: float) -> str:
    """A size for people that is not below ``value_bytes``.

    >>> format_enough_bytes(18_912_000)
    '19 MB'
    """
    if value_bytes <= 0:
        return format_bytes(value_bytes)
    step = 10.0 ** (math.floor(math.log10(value_bytes)) - 2)  # of the third figure
    return format_bytes(math.ceil(value_bytes / step) * step)


def format_bandwidth(value_bytes_per_s: float) -> str:
    """A link rate for people, in bits per second.

    >>> format_bandwidth(25e6)
    '200 Mbit/s'
    """
    bits, units = value_bytes_per_s * 8, {"Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3}
    return _scaled(bits, units) or f"{bits:.0f} bit/s"


def _scaled(value: float, units: dict[str, float]) -> str:
    """The value in the first unit that it reaches; empty where it reaches none."""
    reached = ((unit, factor) for unit, factor in units.items() if abs(value) >= factor)
    return next((f"{value / factor:.3g} {unit}" for unit, factor in reached), "")
