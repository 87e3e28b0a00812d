"""The normalised network: layers, tensors, weights and the places where it can be cut."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
import onnx
from onnx import helper, numpy_helper

from partita.engine.onnx_facts import INTEGER, KERNELS
from partita.errors import ModelError
from partita.graph.arrays import Arrays
from partita.graph.integer_kernels import find_integer_nodes
from partita.graph.integer_nodes import suit_integer_kernels
from partita.graph.layer import Cut, Layer
from partita.graph.liveness import live_tensors
from partita.graph.mutable_graph import Array, make_opsets, name_apart
from partita.graph.node import Node
from partita.graph.normalise import NORMALISER_VERSION
from partita.graph.stored import EXTERNAL_BYTES, refer_to
from partita.program import TensorSpec
from partita.regions import LayerBits, Packing

#: What is remembered with a graph.
T = TypeVar("T")
#: Of what a table of bits makes of a graph: to be raised where the same table makes other values.
QUANTISER_VERSION = 1


@dataclass(frozen=True, eq=False)
class Graph:
    """A network as Partita sees it; compared and hashed by identity. Do not change what it holds.

    Attributes:
        nodes: Normalised operators in topological order, those of one layer side by side.
        tensors: Every activation; a shape with -1 depends on the data (only in a tail layer).
        inputs: Names of the tensors that a request feeds.
        outputs: Names of the tensors that a request gets back.
        layers: In topological order.
        opset_imports: Version of each operator domain; the standard one is the empty name.
        ir_version: Version of the ONNX format for models made from this graph.
        parameters: Trained elements (weights, biases, scales, shifts) before folding.
        packings: Of a quantised graph: how constants, activations and inputs are codes, by name.
        bits: What a quantised graph was made with; empty for others.
        base: The graph that a quantised one was made of; None for others.
        integer: Whether quantised layers run on integer kernels: see ``with_kernels``.
    """

    name: str
    nodes: tuple[Node, ...]
    constants: Arrays
    tensors: dict[str, TensorSpec]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    opset_imports: dict[str, int]
    ir_version: int
    parameters: int
    packings: Mapping[str, Packing] = field(default_factory=dict)
    bits: Mapping[str, LayerBits] = field(default_factory=dict)
    base: Graph | None = None
    integer: bool = False

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.layers)} layers, {self.parameters} parameters)"

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return self.opset_imports.get("", 1)

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and type of each input, in order."""
        return tuple(self.tensors[name] for name in self.inputs)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one request."""
        return sum(layer.macs for layer in self.layers)

    @cached_property
    def weight_bytes(self) -> int:
        """Size of all constants, each once."""
        return sum(self.constants.spec(name).nbytes for name in self.constants)

    @cached_property
    def number_type(self) -> str:
        """The type of what layers multiply; without products, that of the first floats.

        Inputs may be of another: bytes of pictures, numbers of words.
        """
        operands = (n for layer in self.layers for item in layer.products for n in item.operands)
        types = (
            self.constants.spec(name).dtype.name
            if name in self.constants
            else self.tensors[name].dtype
            for name in (*operands, *self.tensors)
        )
        return next((dtype for dtype in types if dtype.startswith("float")), "float32")

    @cached_property
    def integer_nodes(self) -> frozenset[int]:
        """Places of the nodes that run on integer kernels; none where the graph is for floats."""
        if not self.integer:
            return frozenset()
        return find_integer_nodes(self.nodes, self.constants, self.packings, self.outputs)

    @cached_property
    def code_constants(self) -> frozenset[str]:
        """Constants that are loaded as codes, for integer kernels; all others as their values."""
        read = {name for place in self.integer_nodes for name in self.nodes[place].inputs}
        return frozenset(read & self.constants.keys() & self.packings.keys())

    @cached_property
    def hash(self) -> str:
        """SHA-256 over structure, types, weights and the normaliser's version.

        A quantised graph's is over that of the graph it was made of and its table of bits, from
        which all else follows: its weights need not be made for that.
        """
        if self.base is not None:
            digest = hashlib.sha256(f"partita-bits-{QUANTISER_VERSION}".encode())
            digest.update(_frame(self.base.hash.encode()))
            digest.update(_frame(msgspec.json.encode(self.bits, order="deterministic")))
            digest.update(_frame((INTEGER if self.integer else "").encode()))
            return digest.hexdigest()
        digest = hashlib.sha256(f"partita-graph-{NORMALISER_VERSION}".encode())
        for node in self.nodes:
            digest.update(_frame(node.proto.SerializeToString(deterministic=True)))
        for names in (self.inputs, self.outputs):
            for spec in (self.tensors[name] for name in names):
                digest.update(_frame(repr((spec.name, spec.shape, spec.dtype)).encode()))
        for imports in sorted(self.opset_imports.items()):
            digest.update(_frame(repr(imports).encode()))
        for name in sorted(self.constants):
            array = self.constants[name]
            text = repr((name, array.shape, array.dtype.name, self.constant_hash(name)))
            digest.update(_frame(text.encode()))
        for name, packing in sorted(self.packings.items()):  # equal values may be other codes
            text = repr((name, packing.bits, packing.axis, packing.signed))
            digest.update(_frame(text.encode()))
        if self.integer:
            digest.update(_frame(INTEGER.encode()))
        return digest.hexdigest()

    def constant_hash(self, name: str) -> str:
        """The SHA-256 of a constant's little-endian bytes; computed once.

        Raises:
            ModelError: The graph has no such constant.
        """
        if name not in self._constant_hashes:
            if name not in self.constants:
                raise ModelError(f"Graph '{self.name}' has no constant '{name}'.", subject=name)
            array = np.ascontiguousarray(self.constants[name])
            is_text = array.dtype == object
            data = repr(array.tolist()).encode() if is_text else _as_bytes(array)
            self._constant_hashes[name] = hashlib.sha256(data).hexdigest()
        return self._constant_hashes[name]

    def remember(self, make: Callable[[Graph], T]) -> T:
        """What ``make`` makes of the graph: made once, kept as long as the graph."""
        if make not in self._remembered:
            self._remembered[make] = make(self)
        kept: T = self._remembered[make]
        return kept

    @cached_property
    def _remembered(self) -> dict[Callable[[Graph], Any], Any]:
        return {}

    @cached_property
    def _constant_hashes(self) -> dict[str, str]:
        return {}

    @cached_property
    def _layer_indices(self) -> dict[str, int]:
        return {layer.name: index for index, layer in enumerate(self.layers)}

    @cached_property
    def _producers(self) -> dict[str, Layer]:
        return {name: layer for layer in self.layers for name in layer.outputs}

    @cached_property
    def _readers(self) -> dict[str, tuple[Layer, ...]]:
        readers: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for name in layer.inputs:
                readers.setdefault(name, []).append(layer)
        return {name: tuple(layers) for name, layers in readers.items()}

    def layer(self, name: str) -> Layer:
        """The layer called ``name``.

        Raises:
            ModelError: The graph has no such layer.
        """
        return self.layers[self.layer_index(name)]

    def layer_index(self, name: str) -> int:
        """The place of layer ``name`` in ``layers``.

        Raises:
            ModelError: The graph has no such layer.
        """
        if name not in self._layer_indices:
            raise ModelError(f"Graph '{self.name}' has no layer '{name}'.", subject=name)
        return self._layer_indices[name]

    def producer(self, tensor: str) -> Layer | None:
        """The layer that computes ``tensor``, None for inputs and tensors inside a layer."""
        return self._producers.get(tensor)

    def readers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read ``tensor``, in order."""
        return self._readers.get(tensor, ())

    def outputs_of(self, layers: Sequence[Layer]) -> tuple[str, ...]:
        """The tensors of these layers that others, or the graph's outputs, read."""
        inside = {layer.name for layer in layers}
        return tuple(
            tensor
            for layer in layers
            for tensor in layer.outputs
            if tensor in self.outputs
            or any(reader.name not in inside for reader in self.readers(tensor))
        )

    def size_bytes(self, tensor: str) -> int:
        """The size of a whole activation; 0 where its shape depends on the data."""
        return self.tensors[tensor].size_bytes

    def cuts(self) -> tuple[Cut, ...]:
        """Every place where layers can be divided in two, from all after to all before.

        At position 0 the inputs cross, at the last position the outputs.
        """
        return self._cuts

    @cached_property
    def _cuts(self) -> tuple[Cut, ...]:
        live = (self.inputs, *live_tensors(self.layers, self.inputs, self.outputs)[1:])
        return tuple(self._make_cut(position, tensors) for position, tensors in enumerate(live))

    def _make_cut(self, position: int, tensors: tuple[str, ...]) -> Cut:
        return Cut(position, tensors, sum(self.size_bytes(name) for name in tensors))

    def to_model(
        self, apart: dict[str, Array] | None = None, kept: Sequence[str] = ()
    ) -> onnx.ModelProto:
        """The normalised network as one ONNX model; on integer kernels with its weights' codes.

        Args:
            apart: Gets the bytes of large weights by the names of files that the model refers to,
                flat and not copied; where it is not given, the model holds all weights.
            kept: Inner tensors that the model must compute.
        """
        inputs, outputs = (
            [self._value_info(name) for name in names] for names in (self.inputs, self.outputs)
        )
        graph = helper.make_graph([n.proto for n in self.nodes], self.name, inputs, outputs)
        name_apart(graph)
        openers = []
        for name, array in self.constants.items():
            if name in self.code_constants:
                array, node = _as_codes(name, array, self.packings[name], graph)
                name = node.input[0]
                openers.append(node)
            if apart is None or array.nbytes < EXTERNAL_BYTES or array.dtype == object:
                graph.initializer.append(numpy_helper.from_array(array, name))
            else:
                file = f"weight-{len(apart)}"
                graph.initializer.append(refer_to(name, array, file))
                apart[file] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        nodes = [*openers, *graph.node]
        if self.integer:
            shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
            wanted = (*self.outputs, *kept)
            nodes = suit_integer_kernels(nodes, wanted, self.constants, shapes)
        del graph.node[:]
        graph.node.extend(nodes)
        model = helper.make_model(
            graph, ir_version=self.ir_version, opset_imports=make_opsets(self.opset_imports)
        )
        if self.integer:
            helper.set_model_props(model, {KERNELS: INTEGER})
        return model

    def _value_info(self, name: str) -> onnx.ValueInfoProto:
        spec = self.tensors[name]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
        shape = [None if extent < 0 else extent for extent in spec.shape]
        return helper.make_tensor_value_info(name, kind, shape if spec.shape else [])


def _as_codes(
    name: str, array: Array, packing: Packing, graph: onnx.GraphProto
) -> tuple[Array, onnx.NodeProto]:
    """A constant's codes, and the node that turns them into it; its operands go to ``graph``."""
    codes = packing.codes(np.asarray(array, np.float32))
    operands = [f"{name}.codes", f"{name}.scale", f"{name}.zero"]
    for operand, step in zip(operands[1:], (packing.scale, packing.zero), strict=True):
        kind = codes.dtype if step is packing.zero else step.dtype
        graph.initializer.append(numpy_helper.from_array(step.astype(kind), operand))
    attrs: dict[str, Any] = {} if packing.axis is None else {"axis": packing.axis}
    return codes, helper.make_node("DequantizeLinear", operands, [name], f"{name}.open", **attrs)


def _as_bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _frame(data: bytes) -> bytes:
    """``data`` with its length before it, so that parts cannot run into each other."""
    return len(data).to_bytes(8, "little") + data
