"""The power that devices take, where the catalogue knows it."""

from __future__ import annotations

from partita.cluster import catalogue_names, find_entry


def device_watts(kind: str) -> tuple[float, float] | None:
    """Return the power of a kind of device, waiting and computing, in watts; None if unknown."""
    if kind not in catalogue_names():
        return None
    entry = find_entry(kind)
    return entry.watts_idle, entry.watts_busy
