"""What a region rule is: which input boxes a node needs for output boxes, and how to write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from partita.graph.node import Node
from partita.regions import Array, Region

Shape = tuple[int, ...]
#: One box per input or output; None where that input or output is not needed or absent.
Boxes = Sequence[Region | None]


@dataclass(frozen=True)
class NodeView:
    """A node with what its rule may look at.

    Attributes:
        input_shapes: Whole shape of each input; None for an absent optional input.
        output_shapes: Whole shape of each output.
        constants: Of the graph, by name.
        dtype: NumPy type name of the first input.
        opset: Version of the standard operator set.
    """

    node: Node
    input_shapes: tuple[Shape | None, ...]
    output_shapes: tuple[Shape, ...]
    constants: Mapping[str, Array]
    dtype: str
    opset: int

    def attr(self, name: str, default: Any) -> Any:
        """An attribute of the node, or ``default``."""
        return self.node.attrs.get(name, default)

    def shape(self, index: int = 0) -> Shape:
        """The whole shape of input ``index``."""
        shape = self.input_shapes[index]
        return () if shape is None else shape

    def has_input(self, index: int) -> bool:
        """Whether optional input ``index`` is present."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def constant(self, index: int) -> Array | None:
        """The value of input ``index`` if it is present and constant."""
        return self.constants.get(self.node.inputs[index]) if self.has_input(index) else None

    def full(self, index: int) -> Region | None:
        """The whole box of input ``index``; None when absent."""
        shape = self.input_shapes[index]
        return None if shape is None else Region.full(shape)


class Emitter(Protocol):
    """Where a rule writes the nodes of a fragment. Names are of the fragment's own graph."""

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        domain: str = "",
    ) -> list[str]:
        """Add a node and return the names of its outputs."""

    def constant(self, array: Array) -> str:
        """Add a constant and return its name."""

    def crop(self, name: str, held: Region, wanted: Region) -> str:
        """A name that holds ``wanted`` out of ``name``, which holds ``held``."""


class Rule:
    """A region rule: the default is a barrier that needs everything and crops what it made.

    Attributes:
        many_outputs: Whether it knows what boxes of several outputs at once need; a node with
            several is a barrier otherwise.
    """

    barrier = False
    many_outputs = False

    def needs(self, view: NodeView, outs: Boxes) -> list[Region | None]:
        """The box of each input that suffices to compute the boxes ``outs``."""
        return [view.full(index) for index in range(len(view.input_shapes))]

    def emit(self, view: NodeView, outs: Boxes, args: Sequence[str], out: Emitter) -> list[str]:
        """Write nodes that turn ``args`` (which hold ``needs``) into exactly ``outs``.

        Returns:
            One name per output; empty text where the output is not needed.
        """
        names = copy_node(view, args, out)
        return [
            name if box is None else out.crop(name, Region.full(shape), box)
            for name, box, shape in zip(names, outs, view.output_shapes, strict=True)
        ]


class Barrier(Rule):
    """No rule is known: the node runs whole."""

    barrier = True


def copy_node(view: NodeView, args: Sequence[str], out: Emitter, **changes: Any) -> list[str]:
    """Write the node again with some attributes changed (None removes one)."""
    attrs = {**view.node.attrs, **changes}
    kept = {key: value for key, value in attrs.items() if value is not None}
    return out.node(
        view.node.op, args, kept, outputs=len(view.node.outputs), domain=view.node.domain
    )


def wanted(outs: Boxes) -> Region:
    """The box of the first output that is needed."""
    for box in outs:
        if box is not None:
            return box
    raise ValueError("a rule was asked for no output")


def as_ints(array: Array | Sequence[int] | None) -> list[int]:
    """A constant's or attribute's values as integers; empty for None."""
    return [] if array is None else [int(value) for value in np.asarray(array).reshape(-1)]


def int64(values: Sequence[int]) -> Array:
    """A one-axis int64 constant."""
    return np.asarray(values, np.int64)
