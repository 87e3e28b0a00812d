"""Round numbers for axes."""

from __future__ import annotations

import math


def list_ticks(end: float, count: int = 8) -> list[float]:
    """Round values from 0 to at most ``end``, about ``count`` of them.

    >>> list_ticks(0.34, 4)
    [0.0, 0.1, 0.2, 0.3]
    """
    if end <= 0:
        return [0.0]
    rough = end / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(index * step, digits) for index in range(int(end / step * 1.0001) + 1)]


def name_unit(end_s: float) -> tuple[str, float]:
    """The unit in which a time axis up to ``end_s`` reads well, and its length in seconds.

    >>> name_unit(0.25)
    ('ms', 0.001)
    """
    for unit, length_s in (("s", 1.0), ("ms", 1e-3)):
        if end_s >= 2 * length_s:
            return unit, length_s
    return "us", 1e-6


def shorten(name: str, length: int) -> str:
    """A name of at most ``length`` characters, its middle left out.

    >>> shorten("abcdefghij", 5)
    'ab…ij'
    """
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"
