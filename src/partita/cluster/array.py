"""Systolic arrays: grids of multipliers that hand numbers to their neighbours in step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from partita.cluster.fields import Field, one_of, quantity, read_table, whole
from partita.cluster.trace import BANDWIDTHS
from partita.units import write_quantity

#: What stays in the array while the rest passes: outputs, weights or inputs.
Dataflow = Literal["os", "ws", "is"]


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One systolic array with its memory.

    Attributes:
        rows: Of the grid.
        columns: Of the grid.
        dataflow: Which operand stays: ``os`` outputs, ``ws`` weights, ``is`` inputs.
        clock_hz: Steps per second; each multiplier does one multiply-accumulate per step.
        on_chip_bytes: Memory beside the grid. Half of it holds what is used again, the other half
            is filled meanwhile.
        off_chip_bytes_per_s: Rate of the memory that it is filled from.
        wide_steps: Steps of a multiply-accumulate of 16-bit numbers; of 8 bits and less it is one.
    """

    rows: int
    columns: int
    dataflow: Dataflow
    clock_hz: float
    on_chip_bytes: int
    off_chip_bytes_per_s: float
    wide_steps: int = 1

    @property
    def macs_per_s(self) -> float:
        """The most 8-bit multiply-accumulates per second.

        Data sheets may count a multiplication and an addition as two operations, or both as one:
        of 'AUTO-SPLIT' (table 1) "34 GOPs" are 33.6 G multiply-accumulates per second, "96 TOPs"
        are 45.9 T.
        """
        return self.rows * self.columns * self.clock_hz


_FIELDS = {
    "rows": Field(whole(1, 65_536), required=True),
    "columns": Field(whole(1, 65_536), required=True),
    "dataflow": Field(one_of(get_args(Dataflow)), required=True),
    "clock": Field(quantity("clock", "1 Hz", "100 GHz"), required=True),
    "on_chip": Field(quantity("bytes", "1 B", "1000 GB"), required=True),
    "off_chip": Field(quantity("bandwidth", *BANDWIDTHS), required=True),
    "wide_steps": Field(whole(1, 64)),
}


def read_array(table: object, where: str, faults: list[str]) -> Array | None:
    """The array of a cluster file's ``array`` table; None where it breaks rules.

    Args:
        where: The table's own key, for the messages.
        faults: Grows by one entry per broken rule.
    """
    before = len(faults)
    values = read_table(table, _FIELDS, where, faults)
    if len(faults) > before:
        return None
    return Array(
        rows=values["rows"],
        columns=values["columns"],
        dataflow=values["dataflow"],
        clock_hz=values["clock"],
        on_chip_bytes=int(values["on_chip"]),
        off_chip_bytes_per_s=values["off_chip"],
        wide_steps=values.get("wide_steps", 1),
    )


def write_array(array: Array) -> Mapping[str, str]:
    """The keys and values, as TOML writes them, that :func:`read_array` reads as ``array``."""
    clock = write_quantity(array.clock_hz, "clock", ("GHz", "MHz", "kHz", "Hz"))
    on_chip = write_quantity(array.on_chip_bytes, "bytes", ("GB", "MiB", "MB", "KiB", "kB", "B"))
    off_chip = write_quantity(
        array.off_chip_bytes_per_s, "bandwidth", ("GB/s", "MB/s", "kB/s", "B/s")
    )
    return {
        "rows": str(array.rows),
        "columns": str(array.columns),
        "dataflow": f'"{array.dataflow}"',
        "clock": f'"{clock}"',
        "on_chip": f'"{on_chip}"',
        "off_chip": f'"{off_chip}"',
        "wide_steps": str(array.wide_steps),
    }
