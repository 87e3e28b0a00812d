"""Weights of exported fragments: packed codes stay packed, beside nodes that unpack them.

ONNX has no types for codes of 6, 3 or 2 bits, and engines differ in what they make of 4. Bytes,
shifts and a product of whole numbers every one of them has; what follows from constants alone is
computed when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from partita.engine.base import Blob
from partita.engine.packed import PackedTensor, collect_blobs, read_packed, split_location

_BYTE = 8
#: From here on a shift is an operator, and slices take their bounds as inputs.
_LEAST_OPSET = 11


def hold_weights(model: onnx.ModelProto, blobs: Mapping[str, Any]) -> None:
    """Put the weights that a fragment names into it, in place.

    Args:
        blobs: By hash.
    """
    opset = next(each.version for each in model.opset_import if not each.domain)
    openers: list[onnx.NodeProto] = []
    for tensor in list(model.graph.initializer):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next(e.value for e in tensor.external_data if e.key == "location")
        blob, dtype = split_location(location)
        packed = read_packed(blobs[blob]) if dtype and opset >= _LEAST_OPSET else None
        if packed is None:
            _fill(tensor, location, blobs)
        else:
            writer = _Unpacker(tensor.name, packed)
            openers += writer.write(dtype)
            model.graph.initializer.remove(tensor)
            model.graph.initializer.extend(writer.constants)
    nodes = [*openers, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _fill(tensor: onnx.TensorProto, location: str, blobs: Mapping[str, Blob]) -> None:
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    content = collect_blobs([location], blobs)[location]
    tensor.raw_data = np.asarray(content).tobytes()


class _Unpacker:
    """Writes nodes that make one tensor of its packed codes."""

    def __init__(self, name: str, tensor: PackedTensor) -> None:
        self._name = name
        self._tensor = tensor
        self._nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def write(self, dtype: str) -> list[onnx.NodeProto]:
        """The nodes, in order; the last one's output has the tensor's name.

        Args:
            dtype: ``float32`` for values, ``int8`` or ``uint8`` for codes.
        """
        head, scale, zero, _ = self._tensor
        counted = self._unpack()
        if dtype == "float32":
            counted = self._cast(counted, "float32")
            centred = self._node("Sub", counted, self._constant(zero))
            self._node("Mul", centred, self._constant(scale), output=self._name)
        else:
            low = self._constant(np.asarray(head.low, np.int32))
            codes = self._node("Add", self._cast(counted, "int32"), low)
            self._cast(codes, dtype, output=self._name)
        return self._nodes

    def _unpack(self) -> str:
        """Codes counted from the least one, in the tensor's shape."""
        head, packed = self._tensor.head, self._tensor.packed
        if head.bits == _BYTE:
            return self._constant(packed.reshape(head.shape))
        count = prod(head.shape)
        lifts = np.arange(_BYTE - 1, -1, -1, dtype=np.uint8)
        lifted = self._shift(self._constant(packed.reshape(-1, 1)), lifts, "LEFT")
        bits = self._shift(lifted, np.asarray(_BYTE - 1, np.uint8), "RIGHT")
        ends = (self._constant(np.asarray([end], np.int64)) for end in (0, count * head.bits, 0))
        flat = self._node("Slice", self._reshape(bits, [-1]), *ends)
        powers = (1 << np.arange(head.bits, dtype=np.uint8)).reshape(-1, 1)
        rows = self._reshape(flat, [count, head.bits])
        codes = self._node("MatMulInteger", rows, self._constant(powers))
        return self._reshape(codes, head.shape)

    def _shift(self, name: str, by: np.ndarray[Any, Any], direction: str) -> str:
        return self._node("BitShift", name, self._constant(by), direction=direction)

    def _reshape(self, name: str, shape: Sequence[int]) -> str:
        return self._node("Reshape", name, self._constant(np.asarray(shape, np.int64)))

    def _cast(self, name: str, dtype: str, output: str = "") -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._node("Cast", name, output=output, to=kind)

    def _node(self, op: str, *inputs: str, output: str = "", **attrs: Any) -> str:
        name = output or f"{self._name}.{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def _constant(self, array: np.ndarray[Any, Any]) -> str:
        name = f"{self._name}.constant.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name
