"""Writing fragments: layers, computed for boxes, as a small ONNX graph beside its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from partita.engine.onnx_facts import INTEGER, KERNELS
from partita.engine.packed import PackedHead, name_packed, pack_blob
from partita.graph.graph import Graph
from partita.graph.integer_nodes import suit_integer_kernels
from partita.graph.node import Node
from partita.graph.quantised import MOST_PACKED
from partita.graph.regions import RegionMap, TensorBoxes
from partita.graph.stored import EXTERNAL_BYTES, refer_to
from partita.regions import Grid, Packing, Region

Value = tuple[str, Region]
Held = dict[str, tuple[str, Region]]
#: Boxes of tensors.
Pieces = tuple[tuple[str, Region], ...]


@dataclass(frozen=True)
class Stored:
    """Part of a constant that lies apart from the graph.

    Attributes:
        hash: Of the blob.
        location: How graphs name it: packed codes also say as what they are read.
        loaded_bytes: What it takes once it is loaded.
    """

    hash: str
    location: str
    loaded_bytes: int


class BlobStore:
    """Weight slices by content hash, each cut and hashed once; quantised ones are packed codes.

    Args:
        graph: Whose constants are cut.

    Attributes:
        blobs: SHA-256 in hex to the bytes, as a flat uint8 array.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._stored: dict[tuple[str, Region, bool], Stored] = {}
        self.blobs: dict[str, np.ndarray[Any, np.dtype[np.uint8]]] = {}

    def cut(self, name: str, box: Region) -> np.ndarray[Any, Any]:
        """Part of a constant."""
        return self._graph.constants[name][box.slices()]

    def packing(self, name: str, box: Region) -> Packing | None:
        """How part of a constant is codes; None where it is not quantised."""
        packing = self._graph.packings.get(name)
        if packing is None or packing.axis is None:
            return packing
        return packing.cut(*box.bounds[packing.axis])

    def add(self, name: str, box: Region, *, as_codes: bool = False) -> Stored:
        """Keep part of a constant as a blob.

        Args:
            as_codes: Whether a quantised one is to be loaded as its codes, not as their values.
        """
        key = (name, box, as_codes)
        stored = self._stored.get(key)
        if stored is None:
            packing = self.packing(name, box)
            is_plain = packing is None or (packing.bits > MOST_PACKED and not as_codes)
            stored = self._add(name, box) if is_plain else self._add_codes(name, box, as_codes)
            self._stored[key] = stored
        return stored

    def _add(self, name: str, box: Region) -> Stored:
        part = self.cut(name, box)
        whole = part.size == self._graph.constants[name].size
        known = self._graph.constant_hash(name) if whole else ""
        return self._keep(np.ascontiguousarray(part), known)

    def _add_codes(self, name: str, box: Region, as_codes: bool) -> Stored:
        part, packing = self.cut(name, box), self.packing(name, box)
        assert packing is not None
        codes = packing.codes(part)
        if as_codes and packing.bits >= MOST_PACKED:
            return self._keep(codes)
        head = PackedHead(packing.bits, packing.limits[0], part.shape, packing.axis)
        blob = self._keep(pack_blob(codes, head, packing.scale, packing.zero))
        dtype = packing.dtype if as_codes else "float32"
        return Stored(
            blob.hash, name_packed(blob.hash, dtype), part.size * np.dtype(dtype).itemsize
        )

    def _keep(self, content: np.ndarray[Any, Any], known: str = "") -> Stored:
        flat = content.reshape(-1).view(np.uint8)
        blob = known or hashlib.sha256(flat.data).hexdigest()
        self.blobs[blob] = flat
        return Stored(blob, blob, flat.nbytes)


@dataclass(frozen=True)
class Fragment:
    """A fragment, ready to ship.

    Attributes:
        graph: Serialised ONNX model; large initializers name blobs as external data.
        hash: SHA-256 of ``graph``.
        blobs: Hashes of the blobs that the graph names.
        blob_bytes: Size of each once it is loaded.
    """

    graph: bytes
    hash: str
    blobs: tuple[str, ...]
    blob_bytes: tuple[int, ...]

    @property
    def weight_bytes(self) -> int:
        """Size of all weights once they are loaded."""
        return sum(self.blob_bytes)


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
            if name in self._graph.code_constants:
                self._weights[key] = self._dequantised(name, box)
            else:
                self._weights[key] = self._stored(name, box, self._store.cut(name, box))
        return self._weights[key]

    def _dequantised(self, name: str, box: Region) -> str:
        """Codes with a node that turns them into values: what integer kernels are made of."""
        packing = self._store.packing(name, box)
        assert packing is not None
        codes = packing.codes(self._store.cut(name, box))
        held = self._stored(name, box, codes, as_codes=True)
        # The engine keeps dense layers on floats whose weights name no zero.
        steps = [packing.scale, packing.zero.astype(codes.dtype)]
        attrs = {} if packing.axis is None else {"axis": packing.axis}
        return self.node("DequantizeLinear", [held, *map(self.constant, steps)], attrs)[0]

    def _stored(
        self, name: str, box: Region, array: np.ndarray[Any, Any], *, as_codes: bool = False
    ) -> str:
        """An initializer of ``array``, which is part of a constant; large ones lie apart."""
        if array.nbytes < EXTERNAL_BYTES or array.dtype == object:
            return self.constant(array)
        stored = self._store.add(name, box, as_codes=as_codes)
        self._blobs[stored.hash] = stored.loaded_bytes
        fresh = self._fresh()
        self._initializers[fresh] = refer_to(fresh, array, stored.location)
        return fresh

    def requantise(self, name: str, grid: Grid) -> str:
        """A pair of nodes that gives what is on ``grid`` again: its reader sees that it is."""
        dtype = np.uint8
        if not 0 <= grid.zero <= np.iinfo(dtype).max:
            return name
        scale, zero = np.asarray(grid.scale, np.float32), np.asarray(grid.zero, dtype)
        operands = [self.constant(scale), self.constant(zero)]
        (codes,) = self.node("QuantizeLinear", [name, *operands], {})
        return self.node("DequantizeLinear", [codes, *operands], {})[0]

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
        if self._graph.integer:
            outer = [f"o{k}" for k in range(len(names))]
            shapes = {name: tuple(tensor.dims) for name, tensor in self._initializers.items()}
            small = self._small_constants()
            self._nodes = suit_integer_kernels(self._nodes, outer, small, shapes)
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
        if self._graph.integer:
            helper.set_model_props(model, {KERNELS: INTEGER})
        data = model.SerializeToString(deterministic=True)
        blobs, sizes = tuple(self._blobs), tuple(self._blobs.values())
        return Fragment(data, hashlib.sha256(data).hexdigest(), blobs, sizes)

    def _small_constants(self) -> dict[str, np.ndarray[Any, Any]]:
        return {
            name: numpy_helper.to_array(tensor)
            for name, tensor in self._initializers.items()
            if tensor.data_location != onnx.TensorProto.EXTERNAL
        }

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
