"""How many elements a resized axis has, where a scale says so.

ONNX Runtime multiplies in single precision and cuts the rest off; ONNX's own shape rules are off by
one where the product is a whole number but for the last bit. What runs is what counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from partita.graph.pooling import ShapeOf
from partita.regions import Array


def is_scaled(node: onnx.NodeProto) -> bool:
    """Whether a node is a ``Resize`` by scales, from version 11 on."""
    return node.op_type == "Resize" and not node.domain and len(node.input) == 3


def size_instead(graph: onnx.GraphProto, shape_of: ShapeOf, constants: Mapping[str, Array]) -> None:
    """Give nodes that resize by constant scales the true extents instead, in place.

    For inference of shapes only.
    """
    for number, node in enumerate(graph.node):
        if not is_scaled(node):
            continue
        shape, scales = shape_of(node.input[0]), constants.get(node.input[2])
        axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), None)
        if shape is None or scales is None or scales.size != len(axes or shape):
            continue
        chosen = [shape[axis] for axis in axes] if axes else shape
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.asarray(chosen, np.float32) * scales.astype(np.float32)
        if not ((scaled >= 0) & (scaled < 2**31)).all():
            continue  # the engine says what is wrong
        extents = scaled.astype(np.int64)
        name = f"{node.output[0]}.sizes.{number}"
        graph.initializer.append(numpy_helper.from_array(extents, name))
        node.input[2] = ""
        node.input.append(name)
