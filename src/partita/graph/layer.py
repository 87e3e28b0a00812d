"""Layers, cuts and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from partita.graph.work import Products


@dataclass(frozen=True)
class Window:
    """The sliding window of a convolution or pooling layer, one entry per spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    groups: int = 1


@dataclass(frozen=True)
class Layer:
    """The smallest thing a plan may place: a compute node with the pointwise nodes fused to it.

    Attributes:
        name: Unique in the graph; the name of the core node, or of its first output.
        kind: Operator of the core node.
        nodes: Indices into the graph's node list, in topological order; the core is the first.
        inputs: Tensors from other layers or the model's inputs (constants are not listed).
        outputs: Tensors that other layers or the model's outputs read.
        products: Its matrix products, those of convolutions among them.
        weight_bytes: Constants that the layer holds.
        output_bytes: All outputs together.
        barrier: Whether no region rule exists for the core, so that the layer runs whole.
    """

    name: str
    kind: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    products: tuple[Products, ...]
    weight_bytes: int
    output_bytes: int
    window: Window | None = None
    barrier: bool = False

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates for the whole layer."""
        return sum(products.macs for products in self.products)


@dataclass(frozen=True)
class Cut:
    """A legal place to divide the layers in two.

    Attributes:
        position: Number of layers (in the graph's order) before the cut.
        tensors: Tensors that cross it, each counted once, model inputs included.
        bytes: Their size together.
    """

    position: int
    tensors: tuple[str, ...]
    bytes: int
