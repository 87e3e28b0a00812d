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
from partita.profile.link import fit_link, measure_link
from partita.profile.measure import measure_profile
from partita.profile.options import MeasureOptions

__all__ = [
    "LayerProfile",
    "MeasureOptions",
    "Profile",
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
