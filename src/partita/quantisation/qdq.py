"""A quantised graph as an ONNX file of the standard's own form, for engines with integer kernels.

Weights are codes with a node that dequantises them; activations have their pairs of nodes already.
ONNX Runtime's writer of such files finds its own ranges and scales, and cannot be given ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from partita.errors import ModelError
from partita.graph import Graph
from partita.graph.mutable_graph import name_apart
from partita.graph.quantised import with_kernels
from partita.regions import SUM_BITS, Packing
from partita.regions.packing import Codes

#: Bits that ONNX has types for, and operators that take them.
FILE_WIDTHS = (4, 8)
#: Versions of the operators from which on they take codes of 8 bits with scales per axis, and of 4.
_OPSETS = {8: 13, 4: 21}
_TYPES = {
    (8, True): TensorProto.INT8,
    (8, False): TensorProto.UINT8,
    (4, True): TensorProto.INT4,
    (4, False): TensorProto.UINT4,
    (SUM_BITS, True): TensorProto.INT32,
}


def check_file_widths(model: str, widths: Iterable[int]) -> None:
    """Raise for a width that ONNX has no type for.

    Raises:
        ModelError: Names the width and those allowed.
    """
    for width in widths:
        if width not in (*FILE_WIDTHS, SUM_BITS):
            raise ModelError(
                f"Model '{model}' cannot be written with {width} bits: an ONNX file allows"
                f" {' and '.join(map(str, FILE_WIDTHS))}. Partita's own plans hold the others.",
                subject=model,
            )


def to_qdq_model(graph: Graph) -> onnx.ModelProto:
    """The quantised graph with its weights as codes; it answers what the graph does.

    Raises:
        ModelError: It has widths that ONNX has no types for, or its operators cannot be raised to
            the version that 4 bits need.
    """
    check_file_widths(graph.name, (packing.bits for packing in graph.packings.values()))
    model = with_kernels(graph, integer=False).to_model()
    constants = {n: p for n, p in graph.packings.items() if n in graph.constants}
    kept = [t for t in model.graph.initializer if t.name not in constants]
    nodes: list[onnx.NodeProto] = []
    for name, packing in constants.items():
        codes = packing.codes(np.asarray(graph.constants[name], np.float32))
        tensors = _code_tensors(name, packing, codes)
        kept += tensors
        inputs = [tensor.name for tensor in tensors]
        axis = packing.axis or 0  # of single scales it says nothing
        nodes.append(helper.make_node("DequantizeLinear", inputs, [name], axis=axis))
        nodes[-1].name = f"{name}.dequantize"
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    name_apart(model.graph)
    return _raise_opset(graph, model, constants)


def _code_tensors(name: str, packing: Packing, codes: Codes) -> list[onnx.TensorProto]:
    kind = _TYPES[packing.bits, packing.signed]
    scale = numpy_helper.from_array(packing.scale, f"{name}.scale")
    zero = helper.make_tensor(
        f"{name}.zero", kind, packing.zero.shape, packing.zero.reshape(-1).tolist()
    )
    if kind in (TensorProto.INT4, TensorProto.UINT4):
        stored = helper.make_tensor(f"{name}.codes", kind, codes.shape, codes.reshape(-1))
    else:
        stored = numpy_helper.from_array(codes, f"{name}.codes")
    return [stored, scale, zero]


def _raise_opset(
    graph: Graph, model: onnx.ModelProto, constants: Mapping[str, Packing]
) -> onnx.ModelProto:
    """The model with operators of a version that takes the codes of its weights."""
    needed = max((_OPSETS.get(packing.bits, 0) for packing in constants.values()), default=0)
    if graph.opset >= needed:
        return model
    try:
        raised = onnx.version_converter.convert_version(model, needed)
    except Exception as error:  # The converter raises RuntimeError and others.
        raise ModelError(
            f"Model '{graph.name}' has operators of version {graph.opset}, which cannot be raised"
            f" to {needed} as weights of these bits need: {str(error).splitlines()[0]}.",
            subject=graph.name,
        ) from None
    return raised
