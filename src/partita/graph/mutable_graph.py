"""The graph while it is being normalised: nodes that may change, weights apart from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from partita.graph.node import captured_names, subgraphs
from partita.regions import Packing

Array = npt.NDArray[np.generic]

#: Constants up to this many elements go into models made for inference; larger ones only as types.
#: Shapes, axes and pads, which inference reads, are far smaller; not tuned.
SMALL_ELEMENTS = 256
#: How much more than eight times the file's weights folding may make: a VGG-19 whose file says how
#: to fill its 575 MB fits. Eight times is what bits become as bytes.
GROWTH_BYTES, GROWTH = 3 * 2**28, 8
#: Operators that need not write more than their first output.
OPTIONAL_OUTPUTS = frozenset(("BatchNormalization", "Dropout", "LayerNormalization", "MaxPool"))


@dataclass(frozen=True)
class Info:
    """What is known of a tensor: ONNX element type (0 unknown) and shape (None unknown).

    A dimension of -1 is unknown.
    """

    elem_type: int
    shape: tuple[int, ...] | None

    @property
    def is_static(self) -> bool:
        """Whether type and every extent are known."""
        return bool(self.elem_type) and self.shape is not None and min(self.shape, default=0) >= 0


@dataclass
class MutableGraph:
    """A graph on its way to a ``Graph``.

    Attributes:
        nodes: In topological order; owned by the draft.
        constants: Every initializer and folded value.
        inputs: Inputs that a request feeds, with their types.
        outputs: The graph's outputs, with their ONNX element types.
        infos: What inference found out about each activation.
        declared: Shapes of outputs that the file fixes.
        measured: What a run found out about activations that inference knows nothing of.
        limit_bytes: Most bytes of constants that folding may end with.
        packings: How what dequantising nodes wrote is codes, where those were constants.
    """

    name: str
    nodes: list[onnx.NodeProto]
    constants: dict[str, Array]
    inputs: dict[str, Info]
    outputs: dict[str, int]
    opset_imports: dict[str, int]
    ir_version: int
    infos: dict[str, Info] = field(default_factory=dict)
    declared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    measured: dict[str, Info] = field(default_factory=dict)
    limit_bytes: int = GROWTH_BYTES
    packings: dict[str, Packing] = field(default_factory=dict)

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return self.opset_imports.get("", 1)

    def readers(self) -> dict[str, list[onnx.NodeProto]]:
        """For each tensor the nodes that read it, each node once, in order."""
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in node_reads(node):
                readers.setdefault(name, []).append(node)
        return readers

    def producers(self) -> dict[str, onnx.NodeProto]:
        """The node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.output if name}

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a tensor or constant, None where it is not known."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        info = self.infos.get(name)
        return info.shape if info is not None and info.is_static else None

    def to_stripped_model(
        self,
        extra_outputs: Iterable[str] = (),
        *,
        output_shape: tuple[int, ...] | None = None,
        small: int | None = SMALL_ELEMENTS,
    ) -> onnx.ModelProto:
        """A model in which large constants are inputs, so that it is small to pass about.

        Args:
            extra_outputs: Activations to be outputs besides the graph's own.
            output_shape: What to declare for each of the graph's own outputs; None declares none.
            small: Elements of the largest constant that stays in the model; None for all of them.
        """
        inputs = [make_value_info(name, info) for name, info in self.inputs.items()]
        initializers = []
        for name, array in self.constants.items():
            if small is None or array.size <= small:
                initializers.append(numpy_helper.from_array(array, name))
            else:
                inputs.append(make_value_info(name, array_info(array)))
        outputs = [
            make_value_info(name, Info(kind, output_shape)) for name, kind in self.outputs.items()
        ]
        outputs += [helper.make_empty_tensor_value_info(name) for name in extra_outputs]
        graph = helper.make_graph(self.nodes, self.name or "graph", inputs, outputs, initializers)
        return helper.make_model(
            graph, ir_version=self.ir_version, opset_imports=make_opsets(self.opset_imports)
        )

    def drop_unused(self) -> None:
        """Remove nodes and optional outputs that nobody needs, and constants that no node reads."""
        needed = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node_reads(node))
        self.nodes = kept[::-1]
        for node in self.nodes:
            while node.op_type in OPTIONAL_OUTPUTS and node.output[-1] not in needed:
                del node.output[-1]
        self.constants = {n: a for n, a in self.constants.items() if n in needed}


def name_apart(graph: onnx.GraphProto) -> None:
    """Give all nodes other names, in place, where two share one: engines want them unique."""
    if len({node.name for node in graph.node}) < len(graph.node):
        for number, node in enumerate(graph.node):
            node.name = f"node-{number}"


def name_bodies_apart(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Do so in bodies where a name is shared; nodes may have none there. Whether any was."""
    is_changed = False
    for node in nodes:
        for body in subgraphs(node):
            if share_names(body.node):
                name_apart(body)
                is_changed = True
            is_changed |= name_bodies_apart(body.node)
    return is_changed


def share_names(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether two nodes have the same name, other than none."""
    names = [node.name for node in nodes if node.name]
    return len(set(names)) < len(names)


def node_reads(node: onnx.NodeProto) -> list[str]:
    """All names that a node needs, each once: inputs, then those its subgraphs capture."""
    return list(dict.fromkeys(n for n in (*node.input, *captured_names(node)) if n))


def rename_input(node: onnx.NodeProto, old: str, new: str) -> None:
    """Make a node read ``new`` where it reads ``old``; subgraphs are left as they are."""
    for place, name in enumerate(node.input):
        if name == old:
            node.input[place] = new


def make_opsets(imports: dict[str, int]) -> list[onnx.OperatorSetIdProto]:
    """Operator set imports as ONNX has them."""
    return [helper.make_opsetid(domain, version) for domain, version in imports.items()]


def array_info(array: Array) -> Info:
    """Type and shape of a constant."""
    return Info(helper.np_dtype_to_tensor_dtype(array.dtype), tuple(array.shape))


def value_info(value: onnx.ValueInfoProto) -> Info:
    """What a value's declaration says; -1 for each free dimension."""
    if value.type.WhichOneof("value") != "tensor_type":
        return Info(TensorProto.UNDEFINED, None)
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return Info(tensor.elem_type, None)
    extents = (d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return Info(tensor.elem_type, tuple(extents))


def make_value_info(name: str, info: Info) -> onnx.ValueInfoProto:
    """The declaration of a value; an extent of -1 is left free."""
    shape = None if info.shape is None else [None if d < 0 else d for d in info.shape]
    return helper.make_tensor_value_info(name, info.elem_type, shape)
