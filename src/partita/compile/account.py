"""What a layout costs on any devices: multiplications, weights held, and bytes sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partita.compile.layout import Layout
from partita.compile.work import FragmentWork, Piece
from partita.graph import Graph
from partita.graph.rules.window import touched_groups
from partita.program import Compute, DeviceProgram, Load, request_share
from partita.regions import Region


@dataclass(frozen=True)
class DeviceAccount:
    """One device's part.

    Attributes:
        macs: Multiply-accumulates per request, those of halo included.
        weight_bytes: Of all fragments that it loads; what two of them share counts twice.
        sent_bytes: Payload per request, in the wire formats of the plan.
        stored_bytes: Of the weights as they are stored and sent to it: packed codes are smaller.
    """

    macs: float
    weight_bytes: int
    sent_bytes: float
    stored_bytes: int


@dataclass(frozen=True)
class Account:
    """What a layout costs, per device and in all.

    Requests that may take several routes count as means over the routes.

    Attributes:
        devices: In the program's order.
        exchanged_elements: Elements per request that devices send each other; the network's inputs
            and outputs are left out.
    """

    devices: Mapping[str, DeviceAccount]
    exchanged_elements: float

    @property
    def macs(self) -> float:
        """Multiply-accumulates per request of all devices."""
        return sum(device.macs for device in self.devices.values())

    @property
    def weight_bytes(self) -> int:
        """Weights that all devices hold."""
        return sum(device.weight_bytes for device in self.devices.values())

    @property
    def sent_bytes(self) -> float:
        """Payload per request over all links."""
        return sum(device.sent_bytes for device in self.devices.values())


def account_layout(graph: Graph, layout: Layout) -> Account:
    """The account of a layout of ``graph``."""
    program = layout.program
    ends = {*graph.inputs, *graph.outputs}
    sent = dict.fromkeys((part.device for part in program.devices), 0.0)
    exchanged = 0.0
    for stream in program.streams:
        share = request_share(program, stream.when)
        sent[stream.source] += share * stream.wire_bytes
        exchanged += share * stream.box.size if stream.tensor not in ends else 0.0
    devices = {
        part.device: DeviceAccount(
            macs=sum(
                request_share(program, step.when) * work_macs(graph, layout.works[step.fragment])
                for step in part.steps
                if isinstance(step, Compute)
            ),
            weight_bytes=sum(work.weight_bytes for work in loaded_works(layout, part)),
            sent_bytes=sent[part.device],
            stored_bytes=sum(
                program.fragments[step.fragment].stored_bytes
                for step in part.steps
                if isinstance(step, Load)
            ),
        )
        for part in program.devices
    }
    return Account(devices, exchanged)


def work_macs(graph: Graph, work: FragmentWork) -> int:
    """The multiply-accumulates of one work; merging partial sums has none."""
    if work.kind == "merge":
        return 0
    total = 0
    for layer in work.layers:
        share = max(_computed_share(graph, layer.layer, piece) for piece in layer.boxes)
        total += round(graph.layer(layer.layer).macs * share * work.share)
    return total


def _computed_share(graph: Graph, layer: str, piece: Piece) -> float:
    """The part of a layer that is computed for a box of an output."""
    tensor, box = piece
    whole, window = _whole(graph, tensor), graph.layer(layer).window
    share = box.size / max(1, whole.size)
    if window is None or window.groups == 1 or box.is_empty:
        return share
    start, stop = box.bounds[1]
    (first, last), _ = touched_groups((start, stop), whole.bounds[1][1], window.groups)
    return share * (last - first) / (stop - start)


def loaded_works(layout: Layout, part: DeviceProgram) -> list[FragmentWork]:
    """The works whose fragments a device loads, each once."""
    return [layout.works[step.fragment] for step in part.steps if isinstance(step, Load)]


def _whole(graph: Graph, tensor: str) -> Region:
    return Region.full(graph.tensors[tensor].shape)
