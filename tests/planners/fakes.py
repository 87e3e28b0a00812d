"""A cost model made by hand, and small networks: what tests of planners share."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from partita.cluster import Cluster, Device, Link
from partita.compile import FragmentWork, Layout
from partita.cost import MemoryUse
from partita.cost.amount import pieces_bytes
from partita.execution import Durations
from partita.graph import Graph, load_graph
from partita.program import DTYPE_BYTES, Compute, Load, Receive, Send, Stream, request_share
from partita.regions import Region


@dataclass(frozen=True)
class FakeCost:
    """Seconds by hand: a rate per device, a fixed cost per fragment and layer, links as they are.

    Attributes:
        macs_per_s: Per device.
        overhead_s: Of one fragment.
        tile_rows: Rows are computed this many at a time, which makes a staircase.
        codec_s_per_byte: Of encoding raw pieces; decoding takes half of it, lossy pieces twice.
    """

    graph: Graph
    cluster: Cluster
    macs_per_s: Mapping[str, float]
    overhead_s: float = 1e-4
    tile_rows: int = 1
    codec_s_per_byte: float = 0.0
    _seen: dict[object, float] = field(default_factory=dict, compare=False)

    def of(self, graph: Graph) -> FakeCost:
        """Return the same of another graph."""
        return replace(self, graph=graph, _seen={})

    def on(self, cluster: Cluster) -> FakeCost:
        """Return the same on another cluster."""
        return replace(self, cluster=cluster, _seen={})

    def layer_s(self, device: str, layer: str, boxes: Mapping[str, Region]) -> float:
        """Return the layer's share of its work, rows rounded up to whole tiles."""
        key = (device, layer, tuple(boxes.items()))
        if key not in self._seen:
            self._seen[key] = self._layer_s(device, layer, boxes)
        return self._seen[key]

    def _layer_s(
        self, device: str, layer: str, boxes: Mapping[str, Region], *, is_merge: bool = False
    ) -> float:
        one = self.graph.layer(layer)
        work = 0.0
        for tensor, box in boxes.items():
            shape = self.graph.tensors[tensor].shape if tensor in self.graph.tensors else box.shape
            share = box.size / max(1, int(np.prod(shape)))
            if len(shape) > 2 and box.shape[2]:
                share *= -(-box.shape[2] // self.tile_rows) * self.tile_rows / box.shape[2]
            macs = 0 if is_merge else one.macs
            work = max(work, share * (macs + 2 * one.output_bytes))
        return work / self.macs_per_s[device]

    def work_s(self, device: str, work: FragmentWork) -> float:
        """Return the sum over the layers and the fixed cost."""
        key = (device, work.key)
        if key not in self._seen:
            layer_s = (
                partial(self._layer_s, is_merge=True) if work.kind == "merge" else self.layer_s
            )
            total = sum(layer_s(device, one.layer, dict(one.boxes)) for one in work.layers)
            self._seen[key] = self.overhead_s + work.share * total
        return self._seen[key]

    def forget(self) -> None:
        """Forget all prices."""
        self._seen.clear()

    def transfer_s(self, source: str, target: str, size_bytes: float) -> float:
        """Return the message's time on the link, and the link's delay."""
        link = self.cluster.link(source, target)
        if link is None:
            return float("inf")
        return link.message_s(size_bytes)

    def price(self, layout: Layout) -> Durations:
        """Return durations of all steps."""
        compute_s = {
            step.id: self.work_s(part.device, layout.works[step.fragment])
            for part in layout.program.devices
            for step in part.steps
            if isinstance(step, Compute)
        }
        streams = layout.program.streams
        encode_s, receive_s = {}, {}
        for part in layout.program.devices:
            for step in part.steps:
                if isinstance(step, Send):
                    stream = streams[step.stream]
                    size = self._size_bytes(stream)
                    encode_s[step.id] = self.encode_s(part.device, stream.wire, size)
                elif isinstance(step, Receive):
                    stream = streams[step.stream]
                    size = self._size_bytes(stream)
                    receive_s[step.id] = self.decode_s(part.device, stream.wire, size)
        return Durations(compute_s, receive_s, encode_s, links=self.links)

    @staticmethod
    def _size_bytes(stream: Stream) -> int:
        return stream.box.size * DTYPE_BYTES[stream.dtype]

    def memory(self, layout: Layout) -> dict[str, MemoryUse]:
        """Return the bytes of weights and of all pieces."""
        return {
            part.device: MemoryUse(
                fragments=0,
                weights=sum(
                    layout.works[step.fragment].weight_bytes
                    for step in part.steps
                    if isinstance(step, Load)
                ),
                pieces=sum(buffer.size_bytes for buffer in part.buffers),
                arena=0,
            )
            for part in layout.program.devices
        }

    def work_memory(self, work: FragmentWork) -> MemoryUse:
        """Return the bytes of one fragment's weights, and of what it reads and makes."""
        pieces = pieces_bytes(self.graph, (*work.inputs, *work.outputs), "float32")
        return MemoryUse(fragments=0, weights=work.weight_bytes, pieces=pieces, arena=0)

    def busy_s(self, layout: Layout) -> dict[str, float]:
        """Return the seconds that each device computes."""
        durations = self.price(layout).compute_s
        return {
            part.device: sum(
                durations[step.id] * request_share(layout.program, step.when)
                for step in part.steps
                if isinstance(step, Compute)
            )
            for part in layout.program.devices
        }

    def bottleneck_s(self, layout: Layout) -> float:
        """Return the largest busy time of devices and links."""
        wires: dict[object, float] = {}
        for stream in layout.program.streams:
            pair = (stream.source, stream.target)
            link = self.cluster.link_map[pair]
            seconds = link.occupied_s(stream.wire_bytes)
            seconds += self.encode_s(stream.source, stream.wire, self._size_bytes(stream))
            share = request_share(layout.program, stream.when)
            wires[pair] = wires.get(pair, 0.0) + seconds * share
            for port in link.ports:
                port_s = stream.wire_bytes / port.bytes_per_s * share
                wires[port] = wires.get(port, 0.0) + port_s
        return max(*self.busy_s(layout).values(), 0.0, *wires.values())

    @property
    def links(self) -> dict[tuple[str, str], Link]:
        """Return every link as the simulation takes it."""
        return self.cluster.link_map

    @property
    def admit_s(self) -> float:
        """Return the leader's own seconds: none."""
        return 0.0

    def encode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """Return seconds per byte sent."""
        return self.codec_s_per_byte * size_bytes * (1 if wire == "raw" else 2)

    def decode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """Return seconds per byte received, half of those per byte sent."""
        return self.encode_s(device, wire, size_bytes) / 2

    def watts_busy(self, device: str) -> float:
        """Return 1 W for the first device, 2 W for the second..."""
        return 1.0 + self.cluster.names.index(device)

    def swap_s(self, device: str, use: MemoryUse) -> float:
        """Return nothing: these devices do not swap."""
        return 0.0

    def energy_joules(self, layout: Layout) -> float:
        """Return joules at 1 W for the first device, 2 W for the second..."""
        names = self.cluster.names
        return sum((1 + names.index(d)) * s for d, s in self.busy_s(layout).items())


def make_cost(graph: Graph, *rates: float, bandwidth: float = 25e6, **more: float) -> FakeCost:
    """Return a cost model for devices ``d0`` (the requester), ``d1``... with these MAC/s."""
    names = [f"d{number}" for number in range(len(rates))]
    cluster = Cluster.of(names, bandwidth_bytes_per_s=bandwidth, latency_s=more.pop("latency", 0.0))
    return FakeCost(graph, cluster, dict(zip(names, rates, strict=True)), **more)  # type: ignore[arg-type]


def draw_cost(
    rng: random.Random,
    graph: Graph,
    devices: int,
    *,
    magnitudes: tuple[float, float] = (5, 9),
    latencies: tuple[float, ...] = (0.0, 1e-5, 1e-3),
) -> FakeCost:
    """Return a cost model for unequal devices on equal links, with figures drawn.

    Args:
        magnitudes: Least and most decimal logarithm of the links' bytes per second.
        latencies: Those that links may have.
    """
    return make_cost(
        graph,
        *(rng.uniform(0.5, 8) * 1e7 for _ in range(devices)),
        bandwidth=10 ** rng.uniform(*magnitudes),
        latency=rng.choice(latencies),
        overhead_s=rng.choice((0.0, 1e-5)),
        tile_rows=rng.choice((1, 2)),
    )


def conv(
    name: str, source: str, target: str, shape: Sequence[int], **attrs: object
) -> list[object]:
    """Return a convolution node and its weights (out, in, kernel, kernel)."""
    weights = numpy_helper.from_array(np.ones(shape, np.float32) * 0.1, f"{name}.w")
    pad = shape[-1] // 2
    given: dict[str, Any] = {"pads": [pad] * 4, **attrs}
    return [helper.make_node("Conv", [source, weights.name], [target], name=name, **given), weights]


def make_graph(
    parts: Sequence[object], inputs: Mapping[str, Sequence[int]], outputs: Sequence[str]
) -> Graph:
    """Return the graph of nodes and initializers."""
    nodes = [part for part in parts if isinstance(part, onnx.NodeProto)]
    weights = [part for part in parts if isinstance(part, onnx.TensorProto)]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        weights,
    )
    return load_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def make_chain(layers: int, *, height: int = 8, channels: int = 4, seed: int = 0) -> Graph:
    """Return a chain of convolutions whose channels, kernels and strides come from a seed."""
    rng = random.Random(seed)
    parts: list[object] = []
    before, source, top = channels, "x", height
    for number in range(layers):
        after = channels * rng.choice((1, 1, 2))
        kernel = rng.choice((1, 3, 3))
        stride = 2 if rng.random() < 0.2 and height >= 8 else 1
        target = f"t{number}"
        shape = (after, before, kernel, kernel)
        parts += conv(f"c{number}", source, target, shape, strides=[stride, stride])
        before, source, height = after, target, -(-height // stride)
    return make_graph(parts, {"x": (1, channels, top, top)}, [source])


def make_wide(*channels: int, size: int = 32) -> Graph:
    """Convolutions one after the other, of so many channels each."""
    parts: list[object] = []
    for number, (before, after) in enumerate(pairwise((3, *channels))):
        parts += conv(f"c{number}", f"t{number}", f"t{number + 1}", (after, before, 3, 3))
    return make_graph(parts, {"t0": (1, 3, size, size)}, [f"t{len(channels)}"])


def make_residual(seed: int = 0) -> Graph:
    """Return a small network with a residual sum and a mean over space at its end."""
    rng = random.Random(seed)
    width = rng.choice((2, 4, 8))
    parts = [
        *conv("c0", "x", "a", (width, 3, 3, 3)),
        *conv("c1", "a", "b", (width, width, 3, 3)),
        helper.make_node("Add", ["a", "b"], ["s"], name="add"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], name="pool"),
    ]
    return make_graph(parts, {"x": (1, 3, 6, 6)}, ["y"])


def make_gated() -> Graph:
    """Return a network with squeeze and excitation between convolutions."""
    parts = [
        *conv("c0", "x", "a", (8, 3, 3, 3)),
        helper.make_node("GlobalAveragePool", ["a"], ["p"], name="pool"),
        *conv("down", "p", "q", (2, 8, 1, 1)),
        *conv("up", "q", "g", (8, 2, 1, 1)),
        helper.make_node("Sigmoid", ["g"], ["h"], name="gate"),
        helper.make_node("Mul", ["a", "h"], ["m"], name="scale"),
        *conv("c1", "m", "y", (8, 8, 3, 3)),
    ]
    return make_graph(parts, {"x": (1, 3, 16, 16)}, ["y"])


def dense(name: str, source: str, target: str, shape: Sequence[int]) -> list[object]:
    """Return a matrix product and its weights (in, out)."""
    weights = numpy_helper.from_array(np.ones(shape, np.float32) * 0.1, f"{name}.w")
    return [helper.make_node("MatMul", [source, weights.name], [target], name=name), weights]


def make_attention(width: int = 8) -> Graph:
    """Return a network of one attention over six tokens and a dense layer."""
    square = (width, width)
    parts = [
        *(part for n in "qkv" for part in dense(n, "x", f"{n}x", square)),
        helper.make_node("Transpose", ["kx"], ["kt"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qx", "kt"], ["s"], name="score"),
        helper.make_node("Softmax", ["s"], ["p"], name="softmax", axis=2),
        helper.make_node("MatMul", ["p", "vx"], ["c"], name="context"),
        *dense("out", "c", "o", square),
        *dense("last", "o", "y", square),
    ]
    return make_graph(parts, {"x": (1, 6, width)}, ["y"])


def make_dense(layers: int = 3) -> Graph:
    """Return a convolution and dense layers after it."""
    parts: list[object] = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        helper.make_node("Flatten", ["a"], ["f0"], name="flat"),
    ]
    for number in range(layers):
        shape = (16 if number else 64, 16)
        parts += dense(f"fc{number}", f"f{number}", f"f{number + 1}", shape)
    return make_graph(parts, {"x": (1, 3, 4, 4)}, [f"f{layers}"])


def make_pair() -> Graph:
    """Return a network with two inputs and two outputs, one of which is read again."""
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        *conv("c1", "z", "b", (4, 2, 3, 3)),
        helper.make_node("Concat", ["a", "b"], ["c"], name="join", axis=1),
        *conv("c2", "c", "y", (6, 8, 1, 1), strides=[2, 2]),
        *conv("c3", "b", "w", (4, 4, 3, 3)),
    ]
    return make_graph(parts, {"x": (1, 3, 8, 8), "z": (1, 2, 8, 8)}, ["y", "w"])


def make_grouped() -> Graph:
    """Return a network whose second layer needs only some channels for some channels."""
    parts = [
        *conv("c0", "x", "a", (8, 3, 3, 3)),
        *conv("c1", "a", "b", (8, 2, 3, 3), group=4),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        *conv("c2", "r", "d", (8, 8, 3, 3)),
        helper.make_node("Mul", ["b", "d"], ["y"], name="mul"),
    ]
    return make_graph(parts, {"x": (1, 3, 8, 8)}, ["y"])


def unlinked(graph: Graph) -> FakeCost:
    """Return a cost model with a fast device that no link reaches."""
    links = [Link("d0", "d1", 1e9), Link("d1", "d0", 1e9)]
    cluster = Cluster.of([Device("d0"), Device("d1"), Device("d2")], links=links)
    return FakeCost(graph, cluster, {"d0": 1e8, "d1": 2e8, "d2": 1e12})
