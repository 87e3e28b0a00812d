"""What a message costs on a link, from measured sizes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Payload sizes in bytes that are sent unless others are asked for: one byte for the latency, the
#: rest up to 1 MiB for the rate. Round numbers, not tuned.
SIZES = (1, 4096, 65_536, 262_144, 1_048_576)


@dataclass(frozen=True)
class LinkCost:
    """One direction of a link: seconds are ``per_message_s + bytes / bytes_per_s``.

    Attributes:
        samples: What was measured, as (bytes, seconds).
    """

    per_message_s: float
    bytes_per_s: float
    samples: tuple[tuple[int, float], ...] = ()


def measure_link(
    send: Callable[[int], float], *, sizes: Sequence[int] = SIZES, repeats: int = 7
) -> LinkCost:
    """The cost of a link.

    Args:
        send: Sends that many bytes and returns the seconds until they are at the other end.
        sizes: Payload sizes in bytes, at least two different ones.
        repeats: Times that each size is sent; the median counts.

    Raises:
        ValueError: Fewer than two sizes.
    """
    samples = tuple((size, statistics.median(send(size) for _ in range(repeats))) for size in sizes)
    return fit_link(samples)


def fit_link(samples: Sequence[tuple[int, float]]) -> LinkCost:
    """The straight line through ``(bytes, seconds)``, errors weighed by 1 / seconds².

    So that a small message counts as much as a large one.

    Raises:
        ValueError: Fewer than two sizes.

    >>> fit_link([(0, 0.001), (1000, 0.002), (2000, 0.003)]).bytes_per_s
    1000000.0
    """
    if len({size for size, _ in samples}) < 2:
        raise ValueError("a link needs samples of at least two sizes")
    weights = [1 / max(seconds, 1e-9) ** 2 for _, seconds in samples]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, samples, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, samples, strict=True)) / total
    across = sum(
        w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, samples, strict=True)
    )
    along = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, samples, strict=True))
    slope = max(across / along, 1e-12)
    return LinkCost(max(0.0, mean_y - slope * mean_x), round(1 / slope, 6), tuple(samples))
