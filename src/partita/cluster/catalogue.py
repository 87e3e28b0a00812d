"""Known devices: published rates, and efficiencies fitted to published benchmarks."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

import msgspec

from partita.cluster.array import Array
from partita.errors import ClusterError

#: Kind of a device of which nothing is known but what its profile says.
THIS_MACHINE = "this-machine"
#: Kind of a device of which nothing is known until its worker is measured; no file may say it.
UNMEASURED = "unmeasured"
#: Kind of a device that its own ``array`` describes.
OWN_ARRAY = "systolic-array"


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One published measurement: seconds per image of a named model at batch 1."""

    model: str
    precision: str
    seconds: float
    source: str


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one kind of device.

    Attributes:
        peak_macs_per_s: Published peak rate per precision, multiply-accumulates per second.
        efficiency: Share of the peak that dense convolutions and matrix products reach, fitted to
            ``benchmarks`` (see ``source``).
        winograd_efficiency: The same for 3x3 convolutions of stride 1; above 1 where fewer
            multiplications than the direct method are done.
        depthwise_efficiency: The same for depthwise convolutions.
        bandwidth_efficiency: Share of the memory bandwidth that streaming layers reach.
        overhead_s: Fixed cost of one run.
        layer_overhead_s: Fixed cost of one layer (a kernel's launch).
        tile_rows: Output rows that are computed together; a part of a tile costs a whole one.
        tile_channels: The same for output channels.
        swap_bytes_per_s: Rate at which what does not fit in memory is brought in; None where the
            device does not swap.
        port_bytes_per_s: Rate of its network interface, where links do not say all; None for as
            much as these carry together.
        array: Where the device is a systolic array: it, and not the efficiencies, prices layers.
        source: Where the figures come from; ``estimate`` marks those that nobody published.
    """

    title: str
    cores: int
    memory_bytes: int
    peak_macs_per_s: dict[str, float]
    memory_bytes_per_s: float
    efficiency: float
    winograd_efficiency: float
    depthwise_efficiency: float
    bandwidth_efficiency: float
    overhead_s: float
    layer_overhead_s: float
    tile_rows: int
    tile_channels: int
    watts_idle: float
    watts_busy: float
    source: str
    swap_bytes_per_s: float | None = None
    port_bytes_per_s: float | None = None
    benchmarks: tuple[Benchmark, ...] = ()
    array: Array | None = None

    @property
    def precisions(self) -> tuple[str, ...]:
        """Number formats with a published rate, in the file's order."""
        return tuple(self.peak_macs_per_s)


@lru_cache(maxsize=1)
def load_catalogue() -> Mapping[str, CatalogueEntry]:
    """Every entry of the catalogue by kind."""
    content = files("partita.cluster").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(content), dict[str, CatalogueEntry])


def catalogue_names() -> tuple[str, ...]:
    """The kinds of the catalogue, in the file's order."""
    return tuple(load_catalogue())


def find_entry(kind: str) -> CatalogueEntry:
    """The catalogue's entry of ``kind``.

    Raises:
        ClusterError: The catalogue has no such kind; the message lists those it has.
    """
    entry = load_catalogue().get(kind)
    if entry is None:
        known = ", ".join(catalogue_names())
        message = f"Kind {kind!r} is not in the catalogue: known are {known}."
        raise ClusterError(message, subject=kind)
    return entry
