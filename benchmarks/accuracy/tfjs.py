"""From a graph that TensorFlow.js runs to ONNX: the operators of a convolutional network.

Tensors lie (N, C, H, W) afterwards, so that convolutions need no transposing around them. The usual
converters go by way of TensorFlow, half a gigabyte to install for a dozen operators.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from partita.regions import Array

#: Where axes of (N, H, W, C) are in (N, C, H, W).
_AXES = {0: 0, 1: 2, 2: 3, 3: 1}
_OPSET = 17
_SAME = {b"SAME": "SAME_UPPER", b"VALID": "VALID"}
_PLAIN = {"Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div",
          "Relu": "Relu", "Sigmoid": "Sigmoid", "Identity": "Identity"}  # fmt: skip


def convert(path: Path, shape: tuple[int, ...], outputs: Sequence[str]) -> onnx.ModelProto:
    """The part of a network that outputs depend on.

    Args:
        path: The graph's JSON; the files of weights lie beside it.
        shape: Of the one input, (N, C, H, W).
        outputs: Names of nodes.

    Raises:
        ValueError: An operator is none of those known.
    """
    graph = json.loads(path.read_text())
    nodes = {node["name"]: node for node in graph["modelTopology"]["node"]}
    writer = _Writer(_read_weights(path, graph["weightsManifest"]))
    for name in _list_needed(nodes, outputs):
        writer.add(nodes[name])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    image = helper.make_tensor_value_info(writer.input, TensorProto.FLOAT, shape)
    proto = helper.make_graph(writer.nodes, path.stem, [image], values, writer.weights)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 8
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _list_needed(nodes: Mapping[str, Any], outputs: Iterable[str]) -> Iterator[str]:
    """Nodes that outputs depend on, each behind those it reads."""
    seen: set[str] = set()
    stack = [(name, False) for name in outputs]
    while stack:
        name, is_ready = stack.pop()
        if is_ready:
            yield name
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack += [(source, False) for source in nodes[name].get("input", ())]


def _read_weights(path: Path, manifest: Sequence[Any]) -> dict[str, Array]:
    """Constants by name, widened to what the graph computes with."""
    weights = {}
    for group in manifest:
        content = b"".join(path.with_name(name).read_bytes() for name in group["paths"])
        offset = 0
        for entry in group["weights"]:
            dtype = np.dtype(entry.get("quantization", entry)["dtype"])
            count = int(np.prod(entry["shape"]))
            array = np.frombuffer(content, dtype, count, offset).reshape(entry["shape"])
            weights[entry["name"]] = array.astype(entry["dtype"])
            offset += array.nbytes
    return weights


class _Writer:
    """Collects ONNX nodes and the weights they read."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self._constants = constants
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.input = ""

    def add(self, node: Mapping[str, Any]) -> None:
        """Write a node; constants are written by those that read them."""
        name, op, attr = node["name"], node["op"], node.get("attr", {})
        inputs = [source.partition(":")[0] for source in node.get("input", ())]
        if op == "Placeholder":
            self.input = name
        elif op in _PLAIN:
            self._write(_PLAIN[op], [self._operand(source) for source in inputs], name)
        elif "Conv2" in op:
            self._write_conv(name, inputs, attr, is_depthwise="Depthwise" in op)
        elif op == "Relu6":
            bounds = [self._weight(f"{name}/{n}", np.float32(n)) for n in (0, 6)]
            self._write("Clip", [inputs[0], *bounds], name)
        elif op == "Mean":
            axes = [_AXES[int(axis)] for axis in self._constants[inputs[1]]]
            self._write("ReduceMean", inputs[:1], name, axes=axes, keepdims=1)
        elif op == "ConcatV2":
            axis = _AXES[int(self._constants[inputs[-1]]) % 4]
            self._write("Concat", inputs[:-1], name, axis=axis)
        elif op == "ResizeBilinear":
            self._write_doubling(name, inputs[0], attr)
        elif op != "Const":
            raise ValueError(f"{name}: operator {op} is not known")

    def _write_conv(
        self, name: str, inputs: Sequence[str], attr: Mapping[str, Any], *, is_depthwise: bool
    ) -> None:
        kernel = self._constants[inputs[1]]
        height, width, channels, multiple = kernel.shape
        if is_depthwise:
            moved = kernel.transpose(2, 3, 0, 1).reshape(channels * multiple, 1, height, width)
        else:
            moved = kernel.transpose(3, 2, 0, 1)
        sources = [inputs[0], self._weight(inputs[1], moved)]
        sources += [self._weight(one, self._constants[one]) for one in inputs[2:]]
        names = attr.get("fused_ops", {}).get("list", {}).get("s", ())
        fused = [base64.b64decode(one) for one in names]
        inner = name if b"Relu" not in fused else f"{name}/sum"
        self._write(
            "Conv",
            sources,
            inner,
            strides=[int(step) for step in attr["strides"]["list"]["i"][1:3]],
            group=channels if is_depthwise else 1,
            auto_pad=_SAME[base64.b64decode(attr["padding"]["s"])],
        )
        if not {*fused} <= {b"BiasAdd", b"Relu"}:
            raise ValueError(f"{name}: fused {fused} are not known")
        if inner != name:
            self._write("Relu", [inner], name)

    def _write_doubling(self, name: str, source: str, attr: Mapping[str, Any]) -> None:
        """Write a resize to twice the extent; the outputs' declared shapes show that it is that."""
        if attr["align_corners"]["b"] or attr["half_pixel_centers"]["b"]:
            raise ValueError(f"{name}: only positions that start at 0 are known")
        scales = self._weight(f"{name}/scales", np.array([1, 1, 2, 2], np.float32))
        rule = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
        self._write("Resize", [source, "", scales], name, **rule)

    def _operand(self, name: str) -> str:
        """What a pointwise node reads: a constant per channel lies along the channels."""
        if name not in self._constants:
            return name
        array = self._constants[name]
        return self._weight(name, array.reshape(-1, 1, 1) if array.ndim == 1 else array)

    def _weight(self, name: str, array: Any) -> str:
        if all(one.name != name for one in self.weights):
            self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _write(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
