"""What a difference is measured against: a tensor's largest value, or what rounding means there.

Behind a saturating function a tensor can be small by nature: where every argument of a sigmoid is
near -14, all answers are near 1e-6. There the engine's sigmoid is itself off by single precision's
step at 1, and an argument rounded by a share of its magnitude moves the answer by the function's
slope times that. Both are allowed there; elsewhere it is a share of the tensor's own magnitude.
A product with such an answer (``x * sigmoid(x)``) is small where that is: each factor's share
counts as often as the other factor is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from partita.graph import Graph, Node
from partita.regions import Array

#: The largest slope of a function, by its answers and its arguments.
Slope = Callable[[Array, Array], float]
#: How large the answers are beside which an engine's function is off by steps of single precision,
#: by the magnitude of the arguments.
Reach = Callable[[float], float]

#: Steps of single precision at 1 by which an engine's function is off whose answers reach 1. Tuned
#: on the text detectors of rapidocr and on sigmoids of -14: ONNX Runtime's is off by 1.5e-7, that
#: is 1.3 steps.
_STEPS = 4
#: In place of a divisor of 0.
_TINY = float(np.finfo(np.float32).tiny)


def _flat(answer: Array, argument: Array) -> float:
    return 1.0


def _sigmoid_slope(answer: Array, argument: Array) -> float:
    return float((answer * (1 - answer)).max(initial=0.0))


def _tanh_slope(answer: Array, argument: Array) -> float:
    return float((1 - answer**2).max(initial=0.0))


def _erf_slope(answer: Array, argument: Array) -> float:
    return float((2 / np.sqrt(np.pi) * np.exp(-(argument**2))).max(initial=0.0))


def _softplus_slope(answer: Array, argument: Array) -> float:
    return float((1 - np.exp(-answer)).max(initial=0.0))


def _softmax_slope(answer: Array, argument: Array) -> float:
    """The sum of the slopes of one answer by all arguments: the others count as much as its own."""
    return 2 * _sigmoid_slope(answer, argument)


def _gate_slope(answer: Array, argument: Array) -> float:
    """Of an argument times a share of 1: the share, and the argument times the share's own slope.

    Where the share is small that is at most the share times the argument (a normal distribution's
    is the steepest); none is steeper than HardSwish at 3, which has 1.5.
    """
    size = np.abs(argument)
    share = np.abs(answer) / np.maximum(size, _TINY)
    return min(1.5, float((share * (1 + np.maximum(size, size**2))).max(initial=0.0)))


def _exp_slope(answer: Array, argument: Array) -> float:
    return float(answer.max(initial=0.0))


def _nothing(magnitude: float) -> float:
    return 0.0


def _one(magnitude: float) -> float:
    return 1.0


def _argument(magnitude: float) -> float:
    return magnitude


#: Functions that saturate, with the largest slope for their answers, and what those reach.
_SATURATING: dict[str, tuple[Slope, Reach]] = {
    "Sigmoid": (_sigmoid_slope, _one),
    "HardSigmoid": (_flat, _one),
    "Softmax": (_softmax_slope, _one),
    "Tanh": (_tanh_slope, _one),
    "Erf": (_erf_slope, _one),
    "Softplus": (_softplus_slope, _one),
    "Swish": (_gate_slope, _argument),
    "HardSwish": (_gate_slope, _argument),
    "Gelu": (_gate_slope, _argument),
    "Mish": (_gate_slope, _argument),
    "Exp": (_exp_slope, _nothing),
    "Relu": (_flat, _nothing),
    "Clip": (_flat, _nothing),
}
#: Operators whose answers are values of their inputs, or averages of them.
_MOVING = frozenset(
    ("AveragePool", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalAveragePool",
     "GlobalMaxPool", "Identity", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth",
     "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")
)  # fmt: skip
#: Operators of which a constant operand shifts or scales the other.
_SHIFTING = frozenset(("Add", "Sub", "Div"))


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
        self._gated: dict[str, bool] = {}

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
        return max(max_magnitude(values[tensor]), self._noise(tensor, values, {}))

    def _before(self, tensor: str) -> tuple[str, ...]:
        node = self._producers.get(tensor)
        if node is None or node.domain:
            return ()
        if _is_saturating(node):
            names: tuple[str, ...] = node.inputs[:1]
        else:
            names = node.inputs if node.op in _MOVING or self._is_gated(tensor) else ()
        specs = self._graph.tensors
        return tuple(name for name in names if name in specs and "float" in specs[name].dtype)

    def _noise(self, tensor: str, values: Mapping[str, Array], known: dict[str, float]) -> float:
        """What rounding is a share of that comes with what a tensor follows from."""
        if tensor not in known:
            before = {name: self._noise(name, values, known) for name in self._before(tensor)}
            known[tensor] = (
                self._through(tensor, before, values) if before else max_magnitude(values[tensor])
            )
        return known[tensor]

    def _through(
        self, tensor: str, before: Mapping[str, float], values: Mapping[str, Array]
    ) -> float:
        """What an operator makes of the noise of what it reads."""
        node, largest = self._producers[tensor], max(before.values())
        if _is_saturating(node):
            slope, reach = _SATURATING[node.op]
            steepest = slope(_exact(values[tensor]), _exact(values[node.inputs[0]]))
            return steepest * largest + self._floor * reach(largest)
        if node.op not in ("Mul", "Div"):
            return largest
        left, right = (
            _exact(self._graph.constants[name] if name not in values else values[name])
            for name in node.inputs
        )
        if node.op == "Div":
            return largest / max(float(np.abs(right).min(initial=np.inf)), _TINY)
        one, other = (before.get(name, 0.0) for name in node.inputs)
        return float((np.abs(left) * other + np.abs(right) * one).max(initial=0.0))

    def _is_gated(self, tensor: str) -> bool:
        """Whether a tensor is a product with answers of a saturating function, or those shifted."""
        if tensor not in self._gated:
            node = self._producers.get(tensor)
            self._gated[tensor] = False
            if node is not None and (node.op == "Mul" or self._is_shifted(node)):
                self._gated[tensor] = any(map(self._is_small, node.inputs))
        return self._gated[tensor]

    def _is_small(self, tensor: str) -> bool:
        """Whether a tensor may be small beside 1 for what a saturating function answers."""
        node = self._producers.get(tensor)
        if node is None or node.domain:
            return False
        if _is_saturating(node):
            return _SATURATING[node.op][1] is _one
        if node.op in _MOVING:
            return any(map(self._is_small, node.inputs))
        return self._is_gated(tensor)

    def _is_shifted(self, node: Node) -> bool:
        """Whether a node's one operand is a constant, which it adds, subtracts or divides by."""
        constant = [name in self._graph.constants for name in node.inputs]
        return node.op in _SHIFTING and any(constant) and (node.op != "Div" or constant[1])


def _is_saturating(node: Node) -> bool:
    return not node.domain and node.op in _SATURATING


def _exact(array: Array) -> Array:
    return np.asarray(array, np.float64)


def max_magnitude(array: Array) -> float:
    """The largest absolute finite value."""
    values = np.abs(np.asarray(array, np.float64))
    return float(values[np.isfinite(values)].max(initial=0.0))
