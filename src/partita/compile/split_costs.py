"""What dividing a convolution or dense layer costs, as formulas: in elements, nothing measured.

Tables 1 and 2 of *Collaborative execution of deep neural networks on Internet of Things devices*
with their slips put right, for any shares, strides, pads, groups and numbers of axes:

* Table 1 gives n d_i and n d_o as weights per node: each holds its part of the d_i d_o.
* Equation 2 has no edge lengths and no channels, and its first term is the whole input for every d;
  Table 2 multiplies by H_i W_i once more: here the parts' inputs are counted as they are.
* The prose's overheads (N C_i - 1) H_i W_i and (k N - 1) H_i W_i are (N - 1) C_i H_i W_i and
  k (N - 1) H_i W_i.
* Same padding is assumed: here outputs have their real extents.

A dense layer is a convolution without positions, its columns the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod

from partita.graph import Graph, Layer
from partita.regions import Interval


@dataclass(frozen=True)
class LayerShape:
    """A convolution of any number of axes; of none for a dense layer.

    Attributes:
        inputs: Channels of the input, d_i.
        outputs: Channels of the output, d_o or k.
        size: Positions of the input along each axis.
        kernel: Per axis, as are stride, dilation and pads (before and after).
        groups: Of channels; as many as inputs for a depthwise convolution.
    """

    inputs: int
    outputs: int
    size: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    pads: tuple[Interval, ...] = ()
    groups: int = 1

    @property
    def output_size(self) -> tuple[int, ...]:
        """Positions of the output along each axis."""
        reach = (d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        return tuple(
            (size + sum(pads) - window) // stride + 1
            for size, pads, window, stride in zip(
                self.size, self.pads, reach, self.stride, strict=True
            )
        )

    @property
    def filter_size(self) -> int:
        """Weights of one filter."""
        return self.inputs // self.groups * prod(self.kernel)

    def reads(self, axis: int, rows: Interval) -> int:
        """Positions of the input that a range of the output's along an axis needs."""
        if rows[0] == rows[1]:
            return 0
        stride, before = self.stride[axis], self.pads[axis][0]
        window = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        start, stop = rows[0] * stride - before, (rows[1] - 1) * stride - before + window
        return min(self.size[axis], stop) - max(0, start)


@dataclass(frozen=True)
class NodeCost:
    """One node's part of a divided layer, biases and activation left out.

    Attributes:
        macs: Multiplications.
        adds: Additions: of m products there are m - 1.
        weights: Elements held.
        reads: Elements that it is sent.
        writes: Elements that it sends.
    """

    macs: int
    adds: int
    weights: int
    reads: int
    writes: int


def communication(nodes: Sequence[NodeCost]) -> int:
    """All elements on links: inputs to the nodes, and what they make to who merges it."""
    return sum(node.reads + node.writes for node in nodes)


def undivided(shape: LayerShape) -> NodeCost:
    """The layer on one node."""
    return by_outputs(shape, [shape.outputs])[0]


def by_outputs(shape: LayerShape, parts: Sequence[int]) -> list[NodeCost]:
    """Output or channel splitting: so many filters each; merged by concatenation.

    Each node reads all of the input, or with groups those channels that its filters read.

    Raises:
        ValueError: A part cuts a group.
    """
    positions, per_group = prod(shape.output_size), shape.outputs // shape.groups
    if shape.groups > 1 and any(part % per_group for part in parts):
        raise ValueError(f"parts must follow the groups of {per_group} filters")
    nodes = []
    for part in parts:
        groups = -(-part // per_group)
        made = part * positions
        nodes.append(
            NodeCost(
                macs=made * shape.filter_size,
                adds=made * (shape.filter_size - 1),
                weights=part * shape.filter_size,
                reads=groups * (shape.inputs // shape.groups) * prod(shape.size),
                writes=made,
            )
        )
    return nodes


def by_inputs(shape: LayerShape, parts: Sequence[int]) -> list[NodeCost]:
    """Input or filter splitting: so many channels of the input each; merged by a sum.

    The merge takes :func:`merge_adds`; bias and activation follow it.

    Raises:
        ValueError: The convolution is grouped: there it is output splitting of its groups.
    """
    if shape.groups > 1:
        raise ValueError("a grouped convolution is divided along its groups, not its inputs")
    made = shape.outputs * prod(shape.output_size)
    kernel = prod(shape.kernel)
    return [
        NodeCost(
            macs=made * part * kernel,
            adds=made * (part * kernel - 1) if part else 0,
            weights=shape.outputs * part * kernel,
            reads=part * prod(shape.size),
            writes=made if part else 0,
        )
        for part in parts
    ]


def merge_adds(shape: LayerShape, nodes: int) -> int:
    """Additions of the partial results of so many nodes."""
    return (nodes - 1) * shape.outputs * prod(shape.output_size)


def by_positions(shape: LayerShape, parts: Sequence[Sequence[int]]) -> list[NodeCost]:
    """Spatial splitting into a grid: so many positions of the output each, along each axis.

    Every node holds all weights, and reads its halo; merged by concatenation. Parts along one axis
    alone are rows.
    """
    spans = [list(pairwise(accumulate(one, initial=0))) for one in parts]
    nodes = []
    for box in product(*spans):
        made = shape.outputs * prod(stop - start for start, stop in box)
        reads = prod(shape.reads(axis, span) for axis, span in enumerate(box))
        nodes.append(
            NodeCost(
                macs=made * shape.filter_size,
                adds=made * (shape.filter_size - 1),
                weights=shape.outputs * shape.filter_size if made else 0,
                reads=shape.inputs * reads if made else 0,
                writes=made,
            )
        )
    return nodes


def layer_shape(graph: Graph, layer: Layer) -> LayerShape | None:
    """The shape of a convolution, or of a product with a constant matrix; None for others."""
    core = graph.nodes[layer.nodes[0]]
    if len(core.inputs) < 2 or core.inputs[1] not in graph.constants:
        return None
    source = graph.tensors[core.inputs[0]].shape if core.inputs[0] in graph.tensors else ()
    weights = graph.constants.spec(core.inputs[1]).shape
    window = layer.window
    if layer.kind == "Conv" and window is not None and source[0] == 1:
        pads = tuple(zip(window.pads_begin, window.pads_end, strict=True))
        return LayerShape(
            source[1], weights[0], source[2:], window.kernel, window.stride, window.dilation, pads,
            window.groups,
        )  # fmt: skip
    is_plain = not core.attrs.get("transA", 0)
    if layer.kind not in ("Gemm", "MatMul") or len(weights) != 2 or not source or not is_plain:
        return None
    turned = bool(core.attrs.get("transB", 0))
    inputs, outputs = weights[::-1] if turned else weights
    rows = prod(source[:-1])
    axes = (rows,) if rows > 1 else ()
    once = (1,) * len(axes)
    return LayerShape(inputs, outputs, axes, once, once, once, ((0, 0),) * len(axes))
