"""Tiny ONNX fragments, written as a compiler would write them."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

FloatArray = npt.NDArray[np.float32]
SHAPE = (1, 4, 8, 8)


def seeded(shape: tuple[int, ...], seed: int = 0) -> FloatArray:
    """Return normal values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def external(name: str, array: FloatArray, location: str | None = None) -> onnx.TensorProto:
    """Return an initializer whose bytes lie outside the graph, by default under their hash."""
    tensor = TensorProto(name=name, dims=array.shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location or blob_name(array)
    return tensor


def blob_name(array: FloatArray) -> str:
    """Return the SHA-256 of the array's bytes."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def blob(array: FloatArray) -> npt.NDArray[np.uint8]:
    """Return a copy of the array's bytes."""
    return np.frombuffer(array.tobytes(), np.uint8).copy()


def fragment(
    nodes: list[onnx.NodeProto], initializers: list[onnx.TensorProto], domain: str = ""
) -> bytes:
    """Return a serialised graph from ``i0`` to ``o0``."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("i0", "o0")]
    graph = helper.make_graph(nodes, "fragment", values[:1], values[1:], initializers)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def convolution(weights: FloatArray, location: str | None = None) -> bytes:
    """Return a 3x3 convolution with weights outside the graph."""
    node = helper.make_node("Conv", ["i0", "w"], ["o0"], pads=[1, 1, 1, 1])
    return fragment([node], [external("w", weights, location)])


def plain_convolution(weights: FloatArray) -> bytes:
    """Return the same convolution with the weights inside."""
    node = helper.make_node("Conv", ["i0", "w"], ["o0"], pads=[1, 1, 1, 1])
    return fragment([node], [onnx.numpy_helper.from_array(weights, "w")])
