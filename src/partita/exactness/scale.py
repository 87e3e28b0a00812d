"""What a difference is measured against: a tensor's largest value, or what rounding means there.

Behind a saturating function a tensor can be small by nature: where every argument of a sigmoid is
near -14, all answers are near 1e-6. There the engine's sigmoid is itself off by single precision's
step at 1, and an argument rounded by a share of its magnitude moves the answer by the function's
slope times that. Both are allowed there; elsewhere it is a share of the tensor's own magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from partita.graph import Graph, Node
from partita.regions import Array

Slope = Callable[[Array], float]

#: Steps of single precision at 1 by which an engine's function is off whose answers reach 1. Tuned
#: on the text detectors of rapidocr and on sigmoids of -14: ONNX Runtime's is off by 1.5e-7, that
#: is 1.3 steps.
_STEPS = 4


def _one(answer: Array) -> float:
    return 1.0


def _sigmoid_slope(answer: Array) -> float:
    return float((answer * (1 - answer)).max(initial=0.0))


def _softmax_slope(answer: Array) -> float:
    """The sum of the slopes of one answer by all arguments: the others count as much as its own."""
    return 2 * _sigmoid_slope(answer)


#: Functions that saturate, with the largest slope for their answers, and whether those reach 1.
_SATURATING: dict[str, tuple[Slope, bool]] = {
    "Sigmoid": (_sigmoid_slope, True),
    "HardSigmoid": (_one, True),
    "Softmax": (_softmax_slope, True),
    "Tanh": (_one, True),
    "Erf": (_one, True),
    "Softplus": (_one, True),
    "Relu": (_one, False),
    "Clip": (_one, False),
}
#: Operators whose answers are values of their inputs, or averages of them.
_MOVING = frozenset(
    ("AveragePool", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalAveragePool",
     "GlobalMaxPool", "Identity", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth",
     "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")
)  # fmt: skip


class Scales:
    """For each tensor of a graph, what its differences are a share of.

    Args:
        graph: The network.
        tolerance: The share that is allowed.
    """

    def __init__(self, graph: Graph, tolerance: float) -> None:
        self._graph = graph
        self._floor = _STEPS * float(np.finfo(np.float32).eps) / tolerance
        self._producers = {name: node for node in graph.nodes for name in node.outputs if name}

    def sources(self, tensors: Iterable[str]) -> set[str]:
        """The tensors whose values :meth:`of` asks for: these, and those that they follow from."""
        needed: set[str] = set()
        waiting = list(tensors)
        while waiting:
            tensor = waiting.pop()
            if tensor not in needed:
                needed.add(tensor)
                waiting += self._before(tensor)
        return needed

    def arguments(self, tensors: Iterable[str]) -> set[str]:
        """The arguments of the saturating functions that ``tensors`` follow from."""
        return {
            node.inputs[0]
            for name in self.sources(tensors)
            if (node := self._producers.get(name)) is not None and _is_saturating(node)
        }

    def of(self, tensor: str, values: Mapping[str, Array]) -> float:
        """The magnitude that a difference of ``tensor`` is a share of.

        Args:
            values: The whole tensors of :meth:`sources`.
        """
        return self._of(tensor, values, {})

    def _before(self, tensor: str) -> tuple[str, ...]:
        node = self._producers.get(tensor)
        if node is None or node.domain:
            return ()
        if _is_saturating(node):
            names: tuple[str, ...] = node.inputs[:1]
        else:
            names = node.inputs if node.op in _MOVING else ()
        specs = self._graph.tensors
        return tuple(name for name in names if name in specs and "float" in specs[name].dtype)

    def _of(self, tensor: str, values: Mapping[str, Array], known: dict[str, float]) -> float:
        if tensor in known:
            return known[tensor]
        scale = max_magnitude(values[tensor])
        node = self._producers.get(tensor)
        for name in self._before(tensor):
            before = self._of(name, values, known)
            if node is not None and _is_saturating(node):
                slope, reaches_one = _SATURATING[node.op]
                before = slope(np.asarray(values[tensor], np.float64)) * before
                before += self._floor if reaches_one else 0.0
            scale = max(scale, before)
        known[tensor] = scale
        return scale


def _is_saturating(node: Node) -> bool:
    return not node.domain and node.op in _SATURATING


def max_magnitude(array: Array) -> float:
    """The largest absolute finite value."""
    values = np.abs(np.asarray(array, np.float64))
    return float(values[np.isfinite(values)].max(initial=0.0))
