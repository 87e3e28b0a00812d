"""Which layers a table of bits may speak of, and what it may say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from partita.errors import InputError, PlanError
from partita.graph import Graph, Layer, Node
from partita.graph.pointwise import MOVING
from partita.regions import Clipping, LayerBits

#: Bits that weights and activations may have.
Width = Literal[2, 3, 4, 6, 8]
WIDTHS: tuple[int, ...] = get_args(Width)
#: The input with a core's weights, and their axis along which outputs have scales of their own.
#: A matrix product may have them on either side: see ``find_weights``.
_WEIGHTS = {"Conv": (1, 0), "ConvTranspose": (1, 1)}
#: Operators that multiply codes, and need no bits.
_OF_CODES = frozenset(("ConvInteger", "MatMulInteger", "QGemm", "QLinearConv", "QLinearMatMul"))
#: Types of numbers that may be weights, and whose layers are left as they are.
_OTHER_FLOATS = ("float16", "bfloat16", "float64")
#: Quantising nodes have scales per axis, and clip codes, from this version of the operators on.
_LEAST_OPSET = 13
#: Ranges of clipping 'mse' are found for exponents in here; single numbers below, the largest
#: magnitude alone above.
_NORMS = (0.5, 16.0)
#: Ends of ranges, and factors of them, with which scales and their products are numbers of single
#: precision. Far beyond what networks have; not tuned.
_MOST, _STRETCH = 1e15, (1e-3, 1e3)


@dataclass(frozen=True)
class Weights:
    """Where a layer's weights are: the constant, the core's input, and the outputs' axis."""

    name: str
    place: int
    axis: int | None


def find_weights(graph: Graph, layer: Layer) -> Weights | None:
    """The weights that a table of bits means; None for a layer that has none."""
    node = graph.nodes[layer.nodes[0]]
    for place, axis in _weight_places(node):
        name = node.inputs[place] if place < len(node.inputs) else ""
        known = graph.constants.spec(name) if name in graph.constants else None
        if known is not None and known.dtype == "float32" and known.size:
            rank = len(known.shape)
            return Weights(name, place, None if rank < 2 else axis % rank)
    return None


def _weight_places(node: Node) -> tuple[tuple[int, int], ...]:
    if node.domain:
        return ()
    if node.op == "Gemm":
        return ((1, 0 if node.attrs.get("transB", 0) else 1),)
    if node.op == "MatMul":
        return ((1, -1), (0, -2))
    return (_WEIGHTS[node.op],) if node.op in _WEIGHTS else ()


def made_floats(graph: Graph, layer: Layer) -> tuple[str, ...]:
    """The tensors of single precision and fixed shape that the layer makes for others.

    Those that a body of the layer itself reads are not among them: it would read them unrounded.
    """
    captured = {name for place in layer.nodes for name in graph.nodes[place].captured}
    specs = [graph.tensors[name] for name in layer.outputs if name not in captured]
    return tuple(s.name for s in specs if s.dtype == "float32" and min(s.shape, default=0) >= 0)


def is_moving(graph: Graph, layer: Layer) -> bool:
    """Whether all that the layer makes are values of the one tensor that it reads.

    What is quantised stays so; such layers need no bits of their own.
    """
    nodes = [graph.nodes[place] for place in layer.nodes]
    return len(layer.inputs) == 1 and all(
        node.op in MOVING and not node.domain and node.inputs[0] not in graph.constants
        for node in nodes
    )


def list_quantisable(graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the layers with weights to quantise, and of inputs and layers with activations."""
    weights = tuple(layer.name for layer in graph.layers if find_weights(graph, layer))
    inputs = tuple(spec.name for spec in graph.input_specs if spec.dtype == "float32")
    made = (
        layer.name
        for layer in graph.layers
        if made_floats(graph, layer) and not is_moving(graph, layer)
    )
    return weights, (*inputs, *made)


def list_left(graph: Graph) -> dict[str, str]:
    """Layers whose weights cannot have bits, by name, with what these are: codes, other floats."""
    left = {}
    for layer in graph.layers:
        node = graph.nodes[layer.nodes[0]]
        if node.op in _OF_CODES:
            left[layer.name] = "codes"
        elif find_weights(graph, layer) is None:
            names = [n for place, _ in _weight_places(node) for n in node.inputs[place : place + 1]]
            kinds = [str(graph.constants.spec(n).dtype) for n in names if n in graph.constants]
            if kinds and kinds[0] in _OTHER_FLOATS:
                left[layer.name] = kinds[0]
    return left


def explain_left(graph: Graph) -> str:
    """Which layers' weights cannot have bits, and why, in a sentence; empty where all can."""
    left = list_left(graph)
    kinds = ", ".join(sorted(set(left.values())))
    return (
        f"weights of {', '.join(left)}, which are {kinds}: only float32 is rounded" if left else ""
    )


def check_quantisable(graph: Graph) -> None:
    """Raise where no layer of a model can have bits of its own.

    Args:
        graph: The model's.

    Raises:
        InputError: It comes quantised, or its weights are no numbers of single precision.
    """
    left = list_left(graph)
    if graph.base is None and (graph.packings or "codes" in left.values()):
        raise InputError(
            f"Model '{graph.name}' comes quantised and is not rounded again: its layers have bits"
            " already. Divide it as it is, or give the model that it was made of, in float32.",
            subject=graph.name,
        )
    if left and not list_quantisable(graph)[0]:
        raise InputError(
            f"Model '{graph.name}' cannot be rounded: its weights are"
            f" {', '.join(sorted(set(left.values())))}, allowed: float32. Divide it as it is, or"
            " give the model in float32.",
            subject=graph.name,
        )


def check_bits(graph: Graph, bits: Mapping[str, LayerBits]) -> None:
    """Raise unless a table of bits can be applied to a graph.

    Raises:
        PlanError: Lists every broken rule, each with the layer.
    """
    faults = list(_list_faults(graph, bits))
    if faults:
        more = "".join(f"; {fault}" for fault in faults[1:4])
        rest = f"; and {len(faults) - 4} more" if len(faults) > 4 else ""
        raise PlanError(f"Bits of model '{graph.name}': {faults[0]}{more}{rest}.", subject="bits")


def _list_faults(graph: Graph, bits: Mapping[str, LayerBits]) -> Iterator[str]:
    layers = {layer.name: layer for layer in graph.layers}
    inputs = {spec.name for spec in graph.input_specs if spec.dtype == "float32"}
    if any(entry.activation is not None for entry in bits.values()) and graph.opset < _LEAST_OPSET:
        yield (
            f"activations need operators of version {_LEAST_OPSET}, it has {graph.opset} and"
            " cannot be raised"
        )
    for name, entry in bits.items():
        if name not in layers and name not in inputs:
            yield f"'{name}' is no layer and no float32 input of it"
            continue
        if name in layers and name in inputs:
            yield f"'{name}' is a layer and an input of it: rename one"
        yield from (f"'{name}': {fault}" for fault in _value_faults(entry))
        layer = layers.get(name)
        if entry.weight is not None and (layer is None or find_weights(graph, layer) is None):
            yield f"'{name}' has no float32 weights to quantise, got {entry.weight} bits for them"
        if entry.activation is not None and layer is not None and not made_floats(graph, layer):
            yield f"'{name}' makes no float32 tensor, got {entry.activation} bits for it"


def _value_faults(entry: LayerBits) -> Iterator[str]:
    for what, width in (("weight", entry.weight), ("activation", entry.activation)):
        if width is not None and width not in WIDTHS:
            yield f"{what} of {width} bits, allowed: {', '.join(map(str, WIDTHS))}"
    if not -_MOST <= entry.low <= entry.high <= _MOST:
        yield (
            f"range {entry.low:g} to {entry.high:g}, allowed: up to {_MOST:g}, the lower end first"
        )
    if entry.clipping not in get_args(Clipping):
        yield f"clipping '{entry.clipping}', allowed: {', '.join(get_args(Clipping))}"
    if not _NORMS[0] <= entry.norm <= _NORMS[1]:
        yield f"norm {entry.norm:g}, allowed: {_NORMS[0]:g} to {_NORMS[1]:g}"
    if not _STRETCH[0] <= entry.stretch <= _STRETCH[1]:
        yield f"stretch {entry.stretch:g}, allowed: {_STRETCH[0]:g} to {_STRETCH[1]:g}"


def check_widths(widths: Collection[int], what: str) -> None:
    """Raise for a number of bits that is none of ``WIDTHS``.

    Raises:
        PlanError: Names ``what``, the width and those allowed.
    """
    for width in widths:
        if width not in WIDTHS:
            raise PlanError(
                f"{what} cannot have {width} bits, allowed: {', '.join(map(str, WIDTHS))}.",
                subject=what,
            )
