"""Writing fragments: layers, computed for boxes, as a small ONNX graph beside its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from partita.graph.graph import Graph
from partita.graph.node import Node
from partita.graph.regions import RegionMap, TensorBoxes
from partita.graph.stored import EXTERNAL_BYTES, refer_to
from partita.regions import Region

Value = tuple[str, Region]
Held = dict[str, tuple[str, Region]]
#: Boxes of tensors.
Pieces = tuple[tuple[str, Region], ...]


class BlobStore:
    """Weight slices by content hash, each cut and hashed once.

    Args:
        graph: Whose constants are cut.

    Attributes:
        blobs: SHA-256 in hex to the bytes, as a flat uint8 array.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._hashes: dict[tuple[str, Region], str] = {}
        self.blobs: dict[str, np.ndarray[Any, np.dtype[np.uint8]]] = {}

    def cut(self, name: str, box: Region) -> np.ndarray[Any, Any]:
        """Part of a constant."""
        return self._graph.constants[name][box.slices()]

    def add(self, name: str, box: Region) -> str:
        """Keep part of a constant as a blob and return its hash."""
        blob = self._hashes.get((name, box))
        if blob is None:
            part = self.cut(name, box)
            flat = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            whole = part.size == self._graph.constants[name].size
            known = self._graph.constant_hash(name) if whole else ""
            blob = known or hashlib.sha256(flat.data).hexdigest()
            self._hashes[name, box] = blob
            self.blobs[blob] = flat
        return blob


@dataclass(frozen=True)
class Fragment:
    """A fragment, ready to ship.

    Attributes:
        graph: Serialised ONNX model; large initializers name blobs as external data.
        hash: SHA-256 of ``graph``.
        blobs: Hashes of the blobs that the graph names.
        weight_bytes: Size of the blobs.
    """

    graph: bytes
    hash: str
    blobs: tuple[str, ...]
    weight_bytes: int


class FragmentWriter:
    """Collects nodes and constants of one fragment; fills the rules' ``Emitter``.

    Args:
        graph: Where node attributes, constants and operator versions come from.
        store: Where weight slices go.
    """

    def __init__(self, graph: Graph, regions: RegionMap, store: BlobStore) -> None:
        self._graph = graph
        self._regions = regions
        self._store = store
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._weights: dict[tuple[str, Region], str] = {}
        self._blobs: dict[str, int] = {}
        self._count = 0
        #: What the fragment answers besides what its work asks for.
        self.probed: Pieces = ()

    def _fresh(self) -> str:
        self._count += 1
        return f"%{self._count}"

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
        names = [self._fresh() for _ in range(outputs)]
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        self._nodes.append(helper.make_node(op, kept, names, domain=domain, **attrs))
        return names

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """Add a small constant and return its name."""
        name = self._fresh()
        self._initializers[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def weight(self, name: str, box: Region) -> str:
        """Add part of one of the graph's constants and return its name."""
        key = (name, box)
        if key not in self._weights:
            array = self._graph.constants[name]
            if box.size * array.itemsize < EXTERNAL_BYTES or array.dtype == object:
                self._weights[key] = self.constant(self._store.cut(name, box))
            else:
                self._weights[key] = self._external(name, box)
        return self._weights[key]

    def _external(self, name: str, box: Region) -> str:
        blob = self._store.add(name, box)
        self._blobs[blob] = self._store.blobs[blob].nbytes
        fresh = self._fresh()
        tensor = refer_to(fresh, self._store.cut(name, box), blob)
        self._initializers[fresh] = tensor
        return fresh

    def crop(self, name: str, held: Region, wanted: Region) -> str:
        """A name that holds ``wanted`` out of ``name``, which holds ``held``."""
        local = wanted.relative_to(held)
        axes = [
            axis
            for axis, (span, extent) in enumerate(zip(local.bounds, held.shape, strict=True))
            if span != (0, extent)
        ]
        if not axes:
            return name
        parts = [[local.bounds[axis][side] for axis in axes] for side in (0, 1)]
        if self._graph.opset < 10:
            attrs = {"starts": parts[0], "ends": parts[1], "axes": axes}
            return self.node("Slice", [name], attrs)[0]
        consts = [self.constant(np.asarray(part, np.int64)) for part in (*parts, axes)]
        return self.node("Slice", [name, *consts], {})[0]

    def layer(self, name: str, boxes: TensorBoxes, held: Held) -> None:
        """Write one layer so that ``boxes`` of its outputs are added to ``held``."""
        layer = self._graph.layer(name)
        walk = self._regions.walk(layer, boxes)
        for index, outs in zip(layer.nodes, walk.outs, strict=True):
            if any(box is not None for box in outs):
                self._emit(self._graph.nodes[index], outs, held)

    def followers(self, name: str, boxes: TensorBoxes, held: Held) -> None:
        """Write a layer's nodes after its core, whose output is already in ``held``."""
        layer = self._graph.layer(name)
        walk = self._regions.merge_walk(layer, boxes)
        for index, outs in list(zip(layer.nodes, walk.outs, strict=True))[1:]:
            if any(box is not None for box in outs):
                self._emit(self._graph.nodes[index], outs, held)

    def _emit(self, node: Node, outs: tuple[Region | None, ...], held: Held) -> None:
        rule, view = self._regions.rule(node), self._regions.view(node)
        needs = rule.needs(view, outs)
        args = self.arguments(node, needs, held)
        for name in node.captured:
            self._bind(name, held)
        names = rule.emit(view, outs, args, self)
        for name, box, local in zip(node.outputs, outs, names, strict=True):
            if box is not None:
                held[name] = (local, box)

    def arguments(self, node: Node, needs: Sequence[Region | None], held: Held) -> list[str]:
        """Return, for each input of ``node``, a name that holds its needed box."""
        args = []
        for name, box in zip(node.inputs, needs, strict=True):
            if box is None or not name:
                args.append("")
            elif name in self._graph.constants:
                args.append(self.weight(name, box))
            else:
                args.append(self.crop(*held[name], box))
        return args

    def _bind(self, name: str, held: Held) -> None:
        """Make an outer tensor visible to a subgraph under its own name."""
        if name in self._graph.constants and name not in self._initializers:
            array = self._graph.constants[name]
            self._initializers[name] = numpy_helper.from_array(array, name)
        elif name in held and not any(name in node.output for node in self._nodes):
            self._nodes.append(helper.make_node("Identity", [held[name][0]], [name]))

    def finish(
        self, inputs: Sequence[Value], outputs: Sequence[Value], names: Sequence[str]
    ) -> Fragment:
        """The fragment.

        Args:
            inputs: Type name and box of each input, called ``i0``, ``i1`` and so on.
            outputs: Type name and box of each output, to be called ``o0``, ``o1`` and so on.
            names: The outputs' local names.
        """
        self._rename(names)
        values = [
            [_value_info(f"{letter}{k}", *item) for k, item in enumerate(items)]
            for letter, items in (("i", inputs), ("o", outputs))
        ]
        used = {name for node in self._nodes for name in node.input} | set(self._named_inside())
        kept = [init for name, init in self._initializers.items() if name in used]
        graph = helper.make_graph(self._nodes, "fragment", values[0], values[1], kept)
        opsets = [helper.make_opsetid(d, v) for d, v in sorted(self._graph.opset_imports.items())]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=max(8, self._graph.ir_version)
        )
        data = model.SerializeToString(deterministic=True)
        weight_bytes = sum(self._blobs.values())
        return Fragment(data, hashlib.sha256(data).hexdigest(), tuple(self._blobs), weight_bytes)

    def _named_inside(self) -> list[str]:
        return [
            name
            for node in self._nodes
            if any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
            for name in self._initializers
        ]

    def _rename(self, names: Sequence[str]) -> None:
        """Give the fragment's outputs their names; copy what is no node's own output."""
        computed = {name for node in self._nodes for name in node.output if name.startswith("%")}
        renamed: dict[str, str] = {}
        for position, name in enumerate(names):
            if name in computed and name not in renamed:
                renamed[name] = f"o{position}"
            else:
                source = renamed.get(name, name)
                self._nodes.append(helper.make_node("Identity", [source], [f"o{position}"]))
        for node in self._nodes:
            for field in (node.input, node.output):
                for place, name in enumerate(field):
                    if name in renamed:
                        field[place] = renamed[name]


def _value_info(name: str, dtype: str, box: Region) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, code, list(box.shape))
