"""The shipped throughput of four Wi-Fi devices over an hour, drawn from a seed.

DistrEdge, section V-F and Figure 11, shows such traces as pictures and gives no numbers: four
devices, an hour, "high fluctuations", and averages that change "significantly (e.g., at 20min and
40min)". What is drawn here has these properties: a level per device and third of the hour, and
swings about it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

Trace = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class TraceOptions:
    """How traces are drawn.

    Attributes:
        seed: Of everything that is drawn.
        devices: Number of traces.
        duration_s: From the first point to the end.
        step_s: Between points.
        changes_s: When levels change.
        levels_bits_per_s: Least and most of a level; levels are uniform in the logarithm.
        change: Least factor, up or down, between levels that follow each other.
        swing: Standard deviation of the logarithm about the level.
        memory: Correlation of a point's swing with the one before.
        limits_bits_per_s: Least and most of a point.
    """

    seed: int = 0
    devices: int = 4
    duration_s: float = 3600.0
    step_s: float = 10.0
    changes_s: tuple[float, ...] = (1200.0, 2400.0)
    levels_bits_per_s: tuple[float, float] = (25e6, 200e6)
    change: float = 1.5
    swing: float = 0.35
    memory: float = 0.6
    limits_bits_per_s: tuple[float, float] = (5e6, 300e6)


def draw_traces(options: TraceOptions | None = None) -> tuple[Trace, ...]:
    """One trace per device as ``(time_s, bits_per_s)`` points, whole kbit/s.

    >>> len(draw_traces()[0])
    360
    """
    options = options or TraceOptions()
    random = Random(options.seed)
    return tuple(_draw_trace(options, random) for _ in range(options.devices))


def _draw_trace(options: TraceOptions, random: Random) -> Trace:
    levels = _draw_levels(options, random)
    least, most = options.limits_bits_per_s
    fresh = math.sqrt(1 - options.memory**2)
    swing, points = random.gauss(0.0, 1.0), []
    for number in range(int(options.duration_s / options.step_s)):
        time_s = number * options.step_s
        level = levels[sum(time_s >= change_s for change_s in options.changes_s)]
        rate = min(most, max(least, level * math.exp(options.swing * swing)))
        points.append((time_s, round(rate / 1e3) * 1e3))
        swing = options.memory * swing + fresh * random.gauss(0.0, 1.0)
    return tuple(points)


def _draw_levels(options: TraceOptions, random: Random) -> list[float]:
    low, high = (math.log(level) for level in options.levels_bits_per_s)
    levels = [random.uniform(low, high)]
    while len(levels) <= len(options.changes_s):
        level = random.uniform(low, high)
        if abs(level - levels[-1]) >= math.log(options.change):
            levels.append(level)
    return [math.exp(level) for level in levels]


def lower_trace(first: Trace, second: Trace) -> Trace:
    """The trace of a link between two devices: at each time the lower of their rates.

    >>> lower_trace(((0, 5.0), (10, 9.0)), ((0, 7.0), (10, 8.0)))
    ((0, 5.0), (10, 8.0))
    """
    return tuple(
        (time_s, min(one, other)) for (time_s, one), (_, other) in zip(first, second, strict=True)
    )


def write_trace(trace: Trace) -> str:
    """A trace as the CSV text that cluster files name."""
    lines = [f"{time_s:g},{rate / 1e6:.3f} Mbit/s" for time_s, rate in trace]
    return "\n".join(["time_s,bandwidth", *lines, ""])


def name_traces(traces: Sequence[Trace]) -> dict[str, Trace]:
    """The traces of all links of the scenario ``dynamic``, by their files' stems.

    ``dynamic-1`` is the first device's link with the requester, whose own throughput never limits;
    ``dynamic-1-2`` the link between the first two devices.
    """
    found = {f"dynamic-{one}": trace for one, trace in enumerate(traces, start=1)}
    for one in range(len(traces)):
        for two in range(one + 1, len(traces)):
            pair = lower_trace(traces[one], traces[two])
            found[f"dynamic-{one + 1}-{two + 1}"] = pair
    return found
