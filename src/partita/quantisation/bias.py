"""Biases that make up for what rounding weights shifts.

Errors of an output's weights do not cancel where what they multiply is not around 0, as behind a
ReLU: its sums are off by much the same for all inputs. How much in the mean follows from the mean
of each channel that is read, and is taken from the bias. Outputs of few weights, as those of
depthwise convolutions, gain most.

Source: Nagel et al., "Data-free quantization through weight equalization and bias correction"
(2019), section 4.2, with means that are measured on samples.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.errors import PlanError
from partita.graph import Graph, Layer
from partita.quantisation.bits import find_weights
from partita.regions import Array

#: Cores that add a bias to a sum of products, as their third input, and the axis of the channels
#: that they read.
_SUMMING = {"Conv": 1, "Gemm": -1}
#: Digits of a mean that plans keep: weights of 8 bits are off by as much.
_DIGITS = 4


def find_bias(graph: Graph, layer: Layer) -> Array | None:
    """What a layer's core adds to its sums, one number for each output; None for other cores."""
    node = graph.nodes[layer.nodes[0]]
    factors = [node.attrs.get(name, 1.0) for name in ("alpha", "beta")]
    if node.op not in _SUMMING or node.domain or factors != [1.0, 1.0]:
        return None
    array = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    return array if array is not None and array.ndim == 1 else None


def read_tensors(graph: Graph) -> dict[str, str]:
    """By layer whose bias can make up for its weights: the tensor that it multiplies."""
    return {
        layer.name: graph.nodes[layer.nodes[0]].inputs[0]
        for layer in graph.layers
        if find_bias(graph, layer) is not None
        and find_weights(graph, layer) is not None
        and not graph.nodes[layer.nodes[0]].attrs.get("transA", 0)
    }


def channel_means(graph: Graph, layer: Layer, array: Array) -> npt.NDArray[np.float64]:
    """The mean of each channel of what a layer's core reads, as ``read_tensors`` names it."""
    axis = _SUMMING[graph.nodes[layer.nodes[0]].op] % array.ndim
    others = tuple(each for each in range(array.ndim) if each != axis)
    return np.asarray(array.mean(axis=others, dtype=np.float64))


def short_number(number: float) -> float:
    """A mean with as many digits as count."""
    return float(f"{number:.{_DIGITS}g}")


def check_means(graph: Graph, layer: Layer, means: tuple[float, ...]) -> None:
    """Raise unless means are as many as the channels that a layer's core reads, or none.

    Raises:
        PlanError: They are not, or are not finite.
    """
    node, found = graph.nodes[layer.nodes[0]], find_weights(graph, layer)
    if not means or found is None:
        return
    shape = graph.constants.spec(found.name).shape
    is_first = node.op == "Gemm" and not node.attrs.get("transB", 0)
    wanted = int(node.attrs.get("group", 1)) * shape[0 if is_first else 1]
    if len(means) != wanted or not np.isfinite(means).all():
        raise PlanError(
            f"Bits of layer '{layer.name}' have {len(means)} means, allowed:"
            f" {wanted} finite numbers, one for each channel that it reads.",
            subject=layer.name,
        )


def shift_of(
    graph: Graph, layer: Layer, off: Array, means: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    """By how much each output's sums are off in the mean.

    Args:
        off: What rounding changes of the weights, of their shape.
        means: Of each channel that the core reads.
    """
    node, groups = graph.nodes[layer.nodes[0]], 1
    if node.op == "Gemm":
        taps = off if node.attrs.get("transB", 0) else off.T
    else:
        groups = int(node.attrs.get("group", 1))
        taps = off.reshape(*off.shape[:2], -1).sum(axis=2, dtype=np.float64)
    by_group, read = taps.reshape(groups, -1, taps.shape[1]), np.array(means, np.float64)
    return np.asarray(np.einsum("goc,gc->go", by_group, read.reshape(groups, -1)).reshape(-1))
