"""The graph of a trainable child before it is optimised, with its weights named and inside."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from partita.cluster import Cluster
from partita.compile.emit import fill_writer
from partita.compile.layout import build_layout, work_builder
from partita.errors import BundleError
from partita.files import read_regular
from partita.graph import Graph
from partita.graph.fragment import BlobStore, FragmentWriter
from partita.graph.regions import RegionMap
from partita.loading.children import HERE, plan_children
from partita.loading.manifest import Child
from partita.regions import Region

Array = npt.NDArray[Any]
#: What the names of weights that may be trained begin with; the model's own name follows.
TRAINED = "trained:"
#: Inputs of a normalisation that are statistics, not parameters.
_STATISTICS = {"BatchNormalization": (3, 4)}


class _PlainWriter(FragmentWriter):
    """Writes weights into the graph itself, those that may be trained under the model's names."""

    def __init__(self, graph: Graph, regions: RegionMap, own: frozenset[str]) -> None:
        super().__init__(graph, regions, BlobStore(graph))
        self._own = own
        self._inside: dict[tuple[str, Region], str] = {}

    def weight(self, name: str, box: Region) -> str:
        """Add part of a constant and return its name."""
        key = (name, box)
        if key not in self._inside:
            array = self._store.cut(name, box)
            is_whole = array.size == self._graph.constants[name].size
            if name in self._own and is_whole:
                self._inside[key] = TRAINED + name
                weight = numpy_helper.from_array(np.ascontiguousarray(array), TRAINED + name)
                self._initializers[TRAINED + name] = weight
            else:
                self._inside[key] = self.constant(np.ascontiguousarray(array).reshape(array.shape))
        return self._inside[key]


def write_plain(graph: Graph, ends: Sequence[int], trainable: Sequence[str]) -> bytes:
    """Return the last child of a division as a serialised graph, weights inside.

    Inputs are ``i0``, ``i1``... and outputs ``o0``..., as those of the child. Weights that only
    trainable layers use are called ``trained:`` and the model's name for them.

    Args:
        graph: The model.
        ends: Numbers of layers before which each child ends.
        trainable: Names of layers that may be trained.

    Raises:
        BundleError: As :func:`partita.loading.children.cut_children`; or the trainable layers
            have no weights of their own.
    """
    own = _own_weights(graph, frozenset(trainable))
    if not own:
        raise BundleError(
            f"Trainable layers {', '.join(map(repr, trainable))} have no weights of their own."
            " Name layers that have, such as the classifier."
        )
    layout = build_layout(graph, plan_children(graph, ends), Cluster.of([HERE]))
    builder = work_builder(graph)
    writer = _PlainWriter(graph, builder.regions, own)
    return fill_writer(builder, layout.works[len(ends) - 1], writer).graph


def _own_weights(graph: Graph, trainable: frozenset[str]) -> frozenset[str]:
    """Return the constants of floats, one axis or more, that trainable layers alone use."""
    inside: set[str] = set()
    outside: set[str] = set()
    for layer in graph.layers:
        for index in layer.nodes:
            node = graph.nodes[index]
            outside.update(node.captured)
            fixed = _STATISTICS.get(node.op, ())
            for place, name in enumerate(node.inputs):
                is_trained = layer.name in trainable and place not in fixed
                (inside if is_trained else outside).add(name)
    return frozenset(
        name
        for name in inside - outside
        if name in graph.constants
        and graph.constants[name].dtype == np.float32
        and graph.constants[name].ndim > 0
    )


def read_plain(folder: Path, child: Child) -> onnx.ModelProto:
    """Return the plain graph of a trainable child.

    Args:
        folder: Of the scheme.
        child: Its last child.

    Raises:
        BundleError: The child is not trainable, or its plain graph is missing or altered.
    """
    if not child.plain:
        raise BundleError(
            f"Child '{folder / child.file}' cannot be trained: the bundle was split without"
            " trainable layers. Split the model again and name them.",
            subject=str(folder / child.file),
        )
    path = folder / child.plain
    try:
        data = read_regular(path)
    except OSError as error:
        raise BundleError(
            f"Child '{path}' is missing or cannot be read: {error.strerror}.", subject=str(path)
        ) from None
    if hashlib.sha256(data).hexdigest() != child.plain_hash:
        raise BundleError(
            f"Child '{path}' altered: the hash is not {child.plain_hash[:12]}, which the manifest"
            " says. Split the model again.",
            subject=str(path),
        )
    return onnx.load_model_from_string(data)


def trained_weights(model: onnx.ModelProto) -> dict[str, Array]:
    """Return the weights of a plain graph that may be trained, by the model's names."""
    return {
        weight.name.removeprefix(TRAINED): numpy_helper.to_array(weight)
        for weight in model.graph.initializer
        if weight.name.startswith(TRAINED)
    }


def set_weights(model: onnx.ModelProto, weights: Mapping[str, Array]) -> None:
    """Replace the trained weights of a plain graph.

    Raises:
        BundleError: The graph has others than these, or of other shapes.
    """
    found = trained_weights(model)
    if {n: a.shape for n, a in found.items()} != {n: a.shape for n, a in weights.items()}:
        raise BundleError(
            f"A scheme trains {', '.join(sorted(found)) or 'nothing'}, another one"
            f" {', '.join(sorted(weights))}. Split the model again."
        )
    for weight in model.graph.initializer:
        if weight.name.startswith(TRAINED):
            array = np.ascontiguousarray(weights[weight.name.removeprefix(TRAINED)])
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
