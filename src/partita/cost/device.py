"""What work costs on one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from partita.cluster import UNMEASURED, Array, CatalogueEntry, Device
from partita.compile import FragmentWork
from partita.compile.work import LayerBox, WorkKey
from partita.cost.amount import Amounts, pieces_bytes
from partita.cost.estimators import Estimator
from partita.errors import ClusterError
from partita.profile import Profile, RunCost, WireCost
from partita.profile.borders import PASSES, Borders, has_blocks
from partita.regions import CODE_BITS, Region, read_format

_FREE = WireCost(0.0, 0.0, 0.0, 0.0)
#: The format that stands for all in which weights are packed: they are unpacked equally fast.
_PACKED = "uint4"
#: Bytes of packed codes for each byte of the floats that they stand for.
_CODE_SHARES = {f"codes{bits}": bits / 32 for bits in CODE_BITS}
#: Bytes moved by rounding through bytes, over those of the floats that are rounded.
_ROUNDING_PASSES = 2.5


@dataclass(frozen=True)
class DeviceFacts:
    """What a :class:`DeviceCost` is made of.

    Attributes:
        slow_down: All times are multiplied by it.
        blocked: Layers that the engine keeps in a layout of its own.
        rounding: Layers that round what they make, which their profile did not see.
        step_s: What each run takes beyond that, whatever the slow-down.
    """

    device: Device
    estimator: Estimator
    runs: RunCost
    wires: dict[str, WireCost]
    blocked: frozenset[str]
    slow_down: float
    watts_busy: float
    precision: str = "float32"
    step_s: float = 0.0
    rounding: frozenset[str] = frozenset()


class DeviceCost:
    """Seconds of layers, works and pieces on one device; remembers what it was asked."""

    def __init__(self, facts: DeviceFacts, amounts: Amounts) -> None:
        self.facts = facts
        self._amounts = amounts
        self._borders = Borders(amounts.graph, facts.blocked, facts.rounding)
        self._curves: dict[str, Sequence[float]] = {}
        self._works: dict[WorkKey, float] = {}
        self._boxes: dict[LayerBox, float] = {}

    def slowed(self, slow_down: float) -> DeviceCost:
        """The same with another slow-down."""
        if slow_down == self.facts.slow_down:
            return self
        return DeviceCost(replace(self.facts, slow_down=slow_down), self._amounts)

    def layer_s(self, layer: str, box: Region) -> float:
        """The seconds that a layer takes for ``box`` of its first output, in company."""
        curve = self._curves.get(layer)
        if curve is None:
            curve = self._curves[layer] = self._curve(layer)
        extent = self._amounts.extent(layer, box)
        if extent.columns is None:
            rows = int(extent.rows)
            return curve[rows if rows < len(curve) else -1] * extent.share
        return _between(curve, extent.rows) * extent.share

    def _curve(self, layer: str) -> list[float]:
        scale = self.facts.slow_down * self.facts.runs.factor
        curve = self.facts.estimator.curve(self._amounts.layers[layer])
        return [scale * seconds for seconds in curve]

    def work_s(self, work: FragmentWork) -> float:
        """The seconds of one run of ``work``."""
        key = work.key
        seconds = self._works.get(key)
        if seconds is None:
            kinds = {"stage": self._stage_s, "partial": self._partial_s, "merge": self._merge_s}
            seconds = self._works[key] = kinds[work.kind](work) + self.facts.step_s
        return seconds

    def forget(self) -> None:
        """Forget the seconds of works and boxes."""
        self._works.clear()
        self._boxes.clear()

    def copy_run_s(self, size_bytes: int) -> float:
        """The seconds of a run that reads and writes ``size_bytes`` and computes hardly more."""
        runs = self.facts.runs
        seconds = runs.overhead_s + runs.layer_s
        seconds += (runs.read_s_per_byte + runs.write_s_per_byte) * size_bytes
        return seconds * self.facts.slow_down

    def _stage_s(self, work: FragmentWork) -> float:
        return sum(map(self._box_s, work.layers)) + self._run_s(work)

    def _box_s(self, item: LayerBox) -> float:
        seconds = self._boxes.get(item)
        if seconds is None:
            seconds = self._boxes[item] = self.layer_s(item.layer, item.boxes[0][1])
        return seconds

    def _run_s(self, work: FragmentWork) -> float:
        """What the run costs beyond its layers: itself, its length, and its borders."""
        runs = self.facts.runs
        seconds = runs.overhead_s + runs.layer_s * len(work.layers)
        for pieces, rate in (
            (work.inputs, runs.read_s_per_byte),
            (work.outputs, runs.write_s_per_byte),
        ):
            if rate:
                seconds += rate * pieces_bytes(self._amounts.graph, pieces, self.facts.precision)
        if (self.facts.blocked or self.facts.rounding) and work.kind != "merge":
            seconds += self._borders_s(work)
        return seconds * self.facts.slow_down

    def _borders_s(self, work: FragmentWork) -> float:
        runs = self.facts.runs
        if work.kind == "partial":
            return self._partial_borders_s(work)
        crossings = self._borders.crossings(
            tuple(item.layer for item in work.layers), tuple(tensor for tensor, _ in work.outputs)
        )
        boxes = dict(work.inputs)
        for item in work.layers:
            boxes.update(item.boxes)
        enter = [tensor for tensor in crossings.enter if has_blocks(boxes[tensor])]
        seconds = 0.0
        for tensors, rate in (
            (enter, runs.enter_s_per_byte),
            (crossings.leave, runs.leave_s_per_byte),
            (crossings.passes, PASSES * runs.copy_s_per_byte * runs.factor),
            (crossings.rounded, _ROUNDING_PASSES * runs.copy_s_per_byte * runs.factor),
        ):
            seconds += rate * sum(self._bytes(tensor, boxes[tensor]) for tensor in tensors)
        return seconds

    def _partial_borders_s(self, work: FragmentWork) -> float:
        """A core alone: what is fused to the layer comes with the merge."""
        runs, graph, precision = self.facts.runs, self._amounts.graph, self.facts.precision
        if work.layers[0].layer not in self.facts.blocked:
            return 0.0
        read = [(tensor, box) for tensor, box in work.inputs if has_blocks(box)]
        return runs.enter_s_per_byte * pieces_bytes(
            graph, read, precision
        ) + runs.leave_s_per_byte * pieces_bytes(graph, work.outputs, precision)

    def _bytes(self, tensor: str, box: Region) -> int:
        return pieces_bytes(self._amounts.graph, [(tensor, box)], self.facts.precision)

    def _partial_s(self, work: FragmentWork) -> float:
        """A core over part of its input: that share of the whole layer."""
        layer = work.layers[0].layer
        output = self._amounts.graph.layer(layer).outputs[0]
        whole = Region.full(self._amounts.graph.tensors[output].shape)
        return self.layer_s(layer, whole) * work.share + self._run_s(work)

    def _merge_s(self, work: FragmentWork) -> float:
        """The adding of partial results: every byte read and written once."""
        moved = pieces_bytes(
            self._amounts.graph, (*work.inputs, *work.outputs), self.facts.precision
        )
        scale = self.facts.slow_down * self.facts.runs.factor
        return moved * self.facts.runs.copy_s_per_byte * scale + self._run_s(work)

    def encode_s(self, wire: str, size_bytes: int) -> float:
        """The seconds that encoding a piece takes, by its :func:`coded_bytes`."""
        seconds = sum(
            cost.encode_s + cost.encode_s_per_byte * size
            for cost, size in self._wire_works(wire, size_bytes)
        )
        return seconds * self.facts.slow_down

    def decode_s(self, wire: str, size_bytes: int) -> float:
        """The seconds that decoding a piece takes, by its :func:`coded_bytes`."""
        seconds = sum(
            cost.decode_s + cost.decode_s_per_byte * size
            for cost, size in self._wire_works(wire, size_bytes)
        )
        return seconds * self.facts.slow_down

    def _wire_works(self, wire: str, size_bytes: float) -> Iterator[tuple[WireCost, float]]:
        """What is done to a piece, and to how many bytes: packing, then compressing what is packed.

        Codes are packed as fast with the tensor's range as with the piece's own, which was timed.
        """
        form = read_format(wire)
        if form.method == "jpeg":
            yield self._compressing(f"jpeg{form.quality}", form.share), size_bytes
            return
        yield self.facts.wires.get(form.base.replace("codes", "uint"), _FREE), size_bytes
        if form.method:
            size_bytes *= _CODE_SHARES.get(form.base, 1.0)
            yield self._compressing(form.method, form.share), size_bytes

    def _compressing(self, name: str, share: float) -> WireCost:
        """What a format takes that compresses; of a device of the catalogue nothing is known.

        Args:
            share: What is expected to be left. Where several were timed it lies between two.

        Raises:
            ClusterError: The device's profile does not say.
        """
        wires, device = self.facts.wires, self.facts.device.name
        known = [wire for wire in wires if wire.partition("@")[0] == name]
        timed = sorted(known, key=lambda wire: read_format(wire).share)
        if wires and not timed:
            raise ClusterError(
                f"Profile of device {device!r} does not say what wire format '{name}' takes: it is"
                " older, or the device has no Pillow. Measure it again with 'partita profile'.",
                subject=device,
            )
        if not timed:
            return _FREE
        shares = [read_format(wire).share for wire in timed]
        numbers = np.array([msgspec.structs.astuple(wires[wire]) for wire in timed])
        return WireCost(*(float(np.interp(share, shares, column)) for column in numbers.T))

    def load_s(self, weight_bytes: int, stored_bytes: int) -> float:
        """The seconds that making a fragment ready takes.

        Args:
            weight_bytes: Of its weights once they are loaded.
            stored_bytes: Of them as they are stored: packed ones are unpacked, as payloads are.
        """
        runs = self.facts.runs
        seconds = runs.load_s + runs.load_s_per_byte * weight_bytes
        if stored_bytes < weight_bytes:
            seconds += self.facts.wires.get(_PACKED, _FREE).decode_s_per_byte * weight_bytes
        return seconds * self.facts.slow_down


def _between(curve: Sequence[float], rows: float) -> float:
    """The curve at a part of a row; below one row, the line through the first two goes on."""
    low = int(rows)
    if low + 1 >= len(curve):
        return curve[-1]
    if low == 0 and len(curve) > 2:
        return max(curve[1] * rows, curve[1] - (curve[2] - curve[1]) * (1 - rows))
    return curve[low] + (curve[low + 1] - curve[low]) * (rows - low)


def catalogue_runs(entry: CatalogueEntry) -> RunCost:
    """The cost of runs of a device that is known from the catalogue only."""
    return RunCost(
        overhead_s=entry.overhead_s,
        layer_s=entry.layer_overhead_s,
        copy_s_per_byte=1 / (entry.memory_bytes_per_s * entry.bandwidth_efficiency),
    )


def unpriced_device(device: Device) -> ClusterError:
    """The error of a device of which nothing says how fast it is."""
    if device.kind == UNMEASURED:
        message = (
            f"Device {device.name!r} has neither profile nor kind, only an address. Measure its"
            " worker with 'partita profile MODEL --cluster FILE -o MEASURED', and plan with"
            " --cluster MEASURED."
        )
    else:
        message = (
            f"Device {device.name!r} has neither profile nor a kind of the catalogue. Measure"
            " it with 'partita profile MODEL -o FILE' and name FILE in the cluster file, or"
            " give profiles={'*': measure_profile(graph)} for this machine."
        )
    return ClusterError(message, subject=device.name)


def runs_of(profile: Profile | None, entry: CatalogueEntry | None, array: Array | None) -> RunCost:
    """What runs of fragments take beyond their layers, from the first of these that is known."""
    if profile is not None:
        return profile.runs
    if array is not None:
        return RunCost(copy_s_per_byte=1 / array.off_chip_bytes_per_s)
    return RunCost() if entry is None else catalogue_runs(entry)
