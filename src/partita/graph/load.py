"""From an ONNX file to a ``Graph``."""

from __future__ import annotations

from math import prod

from onnx import TensorProto, helper

from partita.errors import ModelError
from partita.graph.arrays import Arrays
from partita.graph.constants import is_training
from partita.graph.evaluate import make_session
from partita.graph.fuse import Wiring, group_nodes
from partita.graph.graph import Graph
from partita.graph.layers import make_layers
from partita.graph.model_file import Source
from partita.graph.mutable_graph import SMALL_ELEMENTS, Info, MutableGraph
from partita.graph.node import subgraphs, wrap_node
from partita.graph.normalise import normalise
from partita.graph.quantised import with_kernels
from partita.graph.read import Shapes, bare_line, read_draft
from partita.graph.read_quantised import find_packings, is_for_integers
from partita.program import DTYPE_BYTES, TensorSpec


def load_graph(
    source: Source,
    *,
    shapes: Shapes | None = None,
    name: str | None = None,
    optimise: bool = True,
) -> Graph:
    """The normalised graph of an ONNX model.

    Constants and batch normalisation are folded, idle nodes dropped, pads written out, and
    pointwise nodes fused to the layer before them. Its answers are the file's, to rounding. What is
    computed from a tensor whose shape depends on the data becomes one last layer that runs whole.
    A model that comes quantised, weights and activations, runs on integer kernels.

    Args:
        source: Path of a file, its bytes, or a model in memory (which is not changed).
        shapes: Shape in elements of each input that has free dimensions.
        name: For people; the file's name if not given.
        optimise: Whether batch normalisation is folded and pointwise nodes are fused; else each
            node is a layer, for methods that are to see the network as it is written.

    Raises:
        ModelError: The model cannot be read, is not supported, or its shapes are not fixed.
    """
    try:
        return _load(source, shapes, name, optimise=optimise)
    except ModelError:
        raise
    except Exception:  # A file that is no model of ONNX can break every rule: the engine says so.
        refuse_graph(read_draft(source, name, shapes))
        raise


def _load(source: Source, shapes: Shapes | None, name: str | None, *, optimise: bool) -> Graph:
    draft = read_draft(source, name, shapes)
    parameters, moving = normalise(draft, optimise=optimise)
    tail = frozenset(p for p, node in enumerate(draft.nodes) if not moving.isdisjoint(node.output))
    groups = group_nodes(_wire(draft), tail, fuse=optimise)
    draft.nodes = [draft.nodes[place] for group in groups for place in group]
    wiring = _wire(draft)
    tensors = _describe_tensors(draft)
    refuse_types(draft, tensors)
    refuse_sizes(draft.name, tensors)
    refuse_graph(draft)
    refuse_chance(draft)
    constants = Arrays(draft.constants)
    layers = make_layers(wiring, _side_by_side(groups), constants, tensors, draft.opset)
    packings = find_packings(draft, wiring.nodes)
    graph = Graph(
        name=draft.name,
        nodes=wiring.nodes,
        constants=constants,
        tensors=tensors,
        inputs=tuple(draft.inputs),
        outputs=tuple(draft.outputs),
        layers=layers,
        opset_imports=draft.opset_imports,
        ir_version=draft.ir_version,
        parameters=parameters,
        packings=packings,
    )
    if is_for_integers(packings, graph.constants):
        return with_kernels(graph, integer=True)
    return graph


def _wire(draft: MutableGraph) -> Wiring:
    nodes = tuple(wrap_node(node, place) for place, node in enumerate(draft.nodes))
    readers: dict[str, list[int]] = {}
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node.index)
    return Wiring(
        nodes=nodes,
        readers={name: tuple(places) for name, places in readers.items()},
        outputs=frozenset(draft.outputs),
        inputs=tuple(draft.inputs),
        constants={name: array.size for name, array in draft.constants.items()},
        shape_of=lambda name: _shape_of(draft, name),
    )


def _shape_of(draft: MutableGraph, name: str) -> tuple[int, ...]:
    if name in draft.constants:
        return tuple(draft.constants[name].shape)
    info = draft.infos.get(name)
    return (-1,) if info is None or info.shape is None else info.shape


def _side_by_side(groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The groups' places once nodes of one group lie side by side."""
    start, result = 0, []
    for group in groups:
        result.append(tuple(range(start, start + len(group))))
        start += len(group)
    return result


def _describe_tensors(draft: MutableGraph) -> dict[str, TensorSpec]:
    names = [*draft.inputs, *(n for node in draft.nodes for n in node.output if n)]
    return {n: _describe_tensor(n, _info_of(draft, n)) for n in names}


def _info_of(draft: MutableGraph, name: str) -> Info | None:
    """What is known of a tensor: where its shape depends on the data, what the file declares."""
    info = draft.infos.get(name)
    if name in draft.declared and (info is None or not info.is_static):
        return Info(draft.outputs[name], draft.declared[name])
    return info


def _describe_tensor(name: str, info: Info | None) -> TensorSpec:
    kind = info.elem_type if info is not None else 0
    shape = info.shape if info is not None and info.shape is not None else (-1,)
    dtype = helper.tensor_dtype_to_np_dtype(kind).name if kind else "object"
    return TensorSpec(name, shape, dtype)


def refuse_types(draft: MutableGraph, tensors: dict[str, TensorSpec]) -> None:
    """Raise for a tensor of a type that cannot travel; what nobody knows the type of may stay.

    Raises:
        ModelError: Names the tensor, its type, and those allowed.
    """
    for spec in tensors.values():
        info = draft.infos.get(spec.name)
        if spec.dtype not in DTYPE_BYTES and info is not None and info.elem_type:
            kind = TensorProto.DataType.Name(info.elem_type).lower()
            raise ModelError(
                f"Tensor '{spec.name}' is of type {kind}, allowed: {', '.join(DTYPE_BYTES)}.",
                subject=spec.name,
            )


#: Elements of the largest tensor that can be thought of: four terabytes of them.
_MOST_ELEMENTS = 2**40


def refuse_sizes(model: str, tensors: dict[str, TensorSpec]) -> None:
    """Raise for a tensor that no device can hold, before anybody counts its rows.

    Raises:
        ModelError: Names the tensor and its shape.
    """
    for spec in tensors.values():
        if prod(max(0, extent) for extent in spec.shape) > _MOST_ELEMENTS:
            raise ModelError(
                f"Tensor '{spec.name}' of model '{model}' has shape"
                f" {'x'.join(map(str, spec.shape))}, allowed are {_MOST_ELEMENTS} elements.",
                subject=spec.name,
            )


#: Weights that are given to the engine where it refuses the graph without them; not tuned.
_MOST_TRIED_BYTES = 2**30


def refuse_graph(draft: MutableGraph) -> None:
    """Raise for a graph that the engine cannot run: a sum of unlike types, an unknown operator.

    Raises:
        ModelError: With the engine's reason.
    """
    is_small = sum(array.nbytes for array in draft.constants.values()) <= _MOST_TRIED_BYTES
    # The engine may complain of the weights that are not there, so they come next.
    tries = [(SMALL_ELEMENTS, False)] + [(None, False)] * is_small
    if is_small and any(subgraphs(node) for node in draft.nodes):
        tries = [(None, True)]  # a branch may fail on these shapes where it is optimised
    for small, optimise in tries:
        try:
            make_session(draft.to_stripped_model(small=small), optimise=optimise)
            return
        except Exception as error:  # ONNX Runtime's errors share no narrower class.
            fault = error
    if not is_small and not any(reason in str(fault) for reason in _CERTAIN):
        return
    raise ModelError(
        f"Model '{draft.name}' cannot run: {bare_line(fault)}.", subject=draft.name
    ) from None


#: What ONNX Runtime says whatever the weights are.
_CERTAIN = ("Type Error", "INVALID_GRAPH", "NOT_IMPLEMENTED", "is not a registered function")


_CHANCE = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
           "RandomUniformLike")  # fmt: skip


def refuse_chance(draft: MutableGraph) -> None:
    """Raise for a node that draws random numbers: no division could be shown to be the whole.

    Raises:
        ModelError: Names the node.
    """
    for node in draft.nodes:
        trains = node.op_type == "Dropout" and is_training(node, draft)
        if not node.domain and (node.op_type in _CHANCE or trains):
            name = node.name or node.output[0]
            raise ModelError(
                f"Node '{name}' ({node.op_type}) draws random numbers, so that no answer can be"
                " checked. Export the model for inference.",
                subject=name,
            )
