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
    """The straight line through ``(bytes, seconds)``.

    Its slope is of least squares, so that large messages decide: small ones may pass a link's
    buffer or a token bucket much faster than the link's rate. Given the slope, errors of what a
    message costs at all are weighed by 1 / seconds², so that small ones decide.

    Raises:
        ValueError: Fewer than two sizes.

    >>> fit_link([(0, 0.001), (1000, 0.002), (2000, 0.003)]).bytes_per_s
    1000000.0
    """
    if len({size for size, _ in samples}) < 2:
        raise ValueError("a link needs samples of at least two sizes")
    mean_x = statistics.fmean(size for size, _ in samples)
    mean_y = statistics.fmean(seconds for _, seconds in samples)
    across = sum((x - mean_x) * (y - mean_y) for x, y in samples)
    along = sum((x - mean_x) ** 2 for x, _ in samples)
    slope = max(across / along, 1e-12)
    weights = [1 / max(seconds, 1e-9) ** 2 for _, seconds in samples]
    beyond = (w * (y - slope * x) for w, (x, y) in zip(weights, samples, strict=True))
    per_message_s = max(0.0, sum(beyond) / sum(weights))
    return LinkCost(per_message_s, round(1 / slope, 6), tuple(samples))
