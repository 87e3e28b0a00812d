"""Profiles: how long a device takes per layer and extent, and a link per message size."""

from partita.profile.data import (
    LayerProfile,
    Profile,
    RunCost,
    Sample,
    WireCost,
    dump_profile,
    load_profile,
    save_profile,
)
from partita.profile.link import LinkCost, fit_link, measure_link
from partita.profile.measure import measure_profile
from partita.profile.options import MeasureOptions, Progress

__all__ = [
    "LayerProfile",
    "LinkCost",
    "MeasureOptions",
    "Profile",
    "Progress",
    "RunCost",
    "Sample",
    "WireCost",
    "dump_profile",
    "fit_link",
    "load_profile",
    "measure_link",
    "measure_profile",
    "save_profile",
]
