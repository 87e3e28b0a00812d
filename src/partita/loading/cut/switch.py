"""Changing from one loaded model to another."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from partita.engine import make_feeds
from partita.loading.serve.session import load_bundle
from partita.regions import Array


@dataclass(frozen=True)
class Switch:
    """What a change takes: letting one model go, loading another, and its first answer.

    Attributes:
        there_s: From the first model to the second; median.
        back_s: From the second to the first; median.
    """

    there_s: float
    back_s: float
    count: int


def measure_switch(
    first: str | Path, second: str | Path, *, repeats: int = 10, verify: bool = False
) -> Switch:
    """What changing between two bundles takes in one process, files in the page cache.

    One model is in memory at a time. Time runs from the moment when the one in use is let go to the
    first answer of the other.

    Args:
        repeats: Changes in each direction, at least 1.
        verify: Whether weights are verified in the background meanwhile.

    Raises:
        BundleError: As :func:`partita.loading.load_bundle`.
        RunError: A child failed.
    """
    homes = (first, second)
    times: tuple[list[float], list[float]] = ([], [])
    held, feeds = load_bundle(first, verify=verify), [_draw(home) for home in homes]
    held.run(None, feeds[0])
    for number in range(2 * repeats + 2):
        into = 1 - number % 2
        began_s = time.perf_counter()
        held.close()
        held = load_bundle(homes[into], verify=verify)
        held.run(None, feeds[into])
        if number >= 2:  # the first round fills the page cache
            times[into].append(time.perf_counter() - began_s)
    held.close()
    return Switch(statistics.median(times[1]), statistics.median(times[0]), repeats)


def _draw(home: str | Path) -> dict[str, Array]:
    with load_bundle(home, verify=False) as session:
        return make_feeds(session.get_inputs())
