"""A network under construction, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

_OPSET = 18


@dataclass
class Net:
    """A network under construction.

    Attributes:
        rng: Where all choices come from.
        shapes: Activations that later nodes may read, with their shapes.
        known: The same for every activation.
    """

    rng: Random
    dtype: int = TensorProto.FLOAT
    shapes: dict[str, Shape] = field(default_factory=dict)
    known: dict[str, Shape] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    count: int = 0

    def weights(self, *shape: int, spread: float | None = None) -> str:
        """Add weights of variance 1 / fan-in and return their name.

        Those of float16 networks are positive: what cancels cannot be told from rounding there.
        """
        fan_in = max(1, prod(shape[1:]))
        scale = 1 / np.sqrt(fan_in) if spread is None else spread
        draws = np.random.default_rng(self.count).standard_normal(shape, np.float32)
        draws = np.abs(draws) if self.dtype == TensorProto.FLOAT16 else draws
        return self.constant(np.asarray(draws * scale, self.kind))

    def constant(self, array: Array) -> str:
        """Add a constant and return its name."""
        self.count += 1
        name = f"c{self.count}"
        self.constants[name] = array
        return name

    def ints(self, *values: int) -> str:
        """Add an int64 constant and return its name."""
        return self.constant(np.asarray(values, np.int64))

    @property
    def kind(self) -> np.dtype[Any]:
        """NumPy type of the activations."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.dtype))

    def add(self, op: str, inputs: Sequence[str], shape: Shape, **attrs: Any) -> str:
        """Add a node with one output and return its name."""
        return self.add_many(op, inputs, [shape], **attrs)[0]

    def add_many(
        self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attrs: Any
    ) -> list[str]:
        """Add a node with several outputs and return their names."""
        self.count += 1
        names = [f"t{self.count}_{k}" for k in range(len(shapes))]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{self.count}", **attrs))
        made = dict(zip(names, shapes, strict=True))
        self.shapes |= made
        self.known |= made
        return names

    def add_input(self, name: str, shape: Shape) -> None:
        """Add an input of the model."""
        self.inputs.append(name)
        self.shapes[name] = self.known[name] = shape

    def like(self, name: str) -> list[str]:
        """Return all tensors of the same shape, ``name`` included."""
        return [other for other, shape in self.shapes.items() if shape == self.shapes[name]]

    def chance(self, percent: int) -> bool:
        """Whether something happens that does so in ``percent`` of cases."""
        return self.rng.randint(1, 100) <= percent

    def finish(self) -> onnx.ModelProto:
        """Return the model; its outputs are what nobody reads, and sometimes one inner tensor."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in read]
        inner = [name for name in made if name in read]
        if inner and self.chance(30):
            outputs.append(self.rng.choice(inner))
        values = [
            [helper.make_tensor_value_info(name, self.dtype, self.known[name]) for name in names]
            for names in ([name for name in self.inputs if name in read], outputs)
        ]
        constants = [numpy_helper.from_array(array, n) for n, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "random", *values, constants)
        imports = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)
