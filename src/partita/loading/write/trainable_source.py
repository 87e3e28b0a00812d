"""The graph of a trainable child before it is optimised, with its weights named and inside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import ExternalDataInfo

from partita.cluster import Cluster
from partita.compile.emit import fill_writer
from partita.compile.layout import build_layout, work_builder
from partita.errors import BundleError
from partita.graph import Graph
from partita.graph.fragment import BlobStore, FragmentWriter
from partita.graph.regions import RegionMap
from partita.loading.bundle.manifest import Child
from partita.loading.bundle.verify import check_source
from partita.loading.write.child_models import HERE, PAGE_BYTES, plan_children
from partita.regions import Array, Region

#: What the names of weights that may be trained begin with; the model's own name follows.
TRAINED = "trained:"
#: Inputs of a normalisation that are statistics, not parameters.
_STATISTICS = {"BatchNormalization": (3, 4)}


class _SourceWriter(FragmentWriter):
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


def write_source(graph: Graph, ends: Sequence[int], trainable: Sequence[str]) -> onnx.ModelProto:
    """The last child of a division as a graph, weights inside.

    Inputs are ``i0``, ``i1``... and outputs ``o0``..., as those of the child. Weights that only
    trainable layers use are called ``trained:`` and the model's name for them.

    Raises:
        BundleError: As :func:`~partita.loading.write.child_models.cut_children`;
            or the trainable layers
            have no weights of their own.
    """
    own = _own_weights(graph, frozenset(trainable))
    if not own:
        raise BundleError(
            f"Trainable layers {', '.join(map(repr, trainable))} have no float weights"
            " that no other layer uses. Name layers that have."
        )
    layout = build_layout(graph, plan_children(graph, ends), Cluster.of([HERE]))
    builder = work_builder(graph)
    writer = _SourceWriter(graph, builder.regions, own)
    fragment = fill_writer(builder, layout.works[len(ends) - 1], writer)
    return onnx.load_model_from_string(fragment.graph)


def _own_weights(graph: Graph, trainable: frozenset[str]) -> frozenset[str]:
    """The constants of floats, one axis or more, that trainable layers alone use."""
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


@dataclass(frozen=True)
class SourceGraph:
    """A source graph, and where its weights are.

    Attributes:
        model: The graph; large weights are named, not held.
        path: The file of weights.
    """

    model: onnx.ModelProto
    path: Path

    def read(self, weight: onnx.TensorProto) -> Array:
        """One of the graph's weights, as an array of its own."""
        if weight.data_location != onnx.TensorProto.EXTERNAL:
            return np.array(numpy_helper.to_array(weight))
        dtype = helper.tensor_dtype_to_np_dtype(weight.data_type)
        start = ExternalDataInfo(weight).offset or 0
        count = math.prod(weight.dims)
        return np.fromfile(self.path, dtype, count, offset=start).reshape(tuple(weight.dims))


def read_source(folder: Path, child: Child) -> SourceGraph:
    """What a trainable child is trained from.

    Raises:
        BundleError: The child is not trainable, or a file is missing or altered.
    """
    source = child.source
    if source is None:
        raise BundleError(
            f"Child '{folder / child.file}' cannot be trained: the bundle was split without"
            " trainable layers. Split the model again and name them.",
            subject=str(folder / child.file),
        )
    check_source(folder, source)
    return SourceGraph(
        onnx.load(folder / source.file, load_external_data=False), folder / source.weights
    )


def replace_weights(
    old: SourceGraph, weights: Mapping[str, Array], file: str
) -> tuple[onnx.ModelProto, Iterator[bytes | memoryview]]:
    """The source graph with other trained weights, and what its file of weights holds.

    Args:
        weights: All trained weights, by the model's names.
        file: Name of the new file of weights. Each weight lies where it lay.

    Raises:
        BundleError: The graph has others than these, or of other shapes.
    """
    shapes = {
        weight.name.removeprefix(TRAINED): tuple(weight.dims)
        for weight in old.model.graph.initializer
        if weight.name.startswith(TRAINED)
    }
    if shapes != {name: array.shape for name, array in weights.items()}:
        raise BundleError(
            f"A variant trains {', '.join(sorted(shapes)) or 'nothing'}, another one"
            f" {', '.join(sorted(weights))}. Split the model again."
        )
    model = onnx.ModelProto()
    model.CopyFrom(old.model)
    for weight in model.graph.initializer:
        if weight.data_location == onnx.TensorProto.EXTERNAL:
            location = next(entry for entry in weight.external_data if entry.key == "location")
            location.value = file
        elif weight.name.startswith(TRAINED):
            array = weights[weight.name.removeprefix(TRAINED)]
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return model, _fill(old, weights)


def _fill(old: SourceGraph, weights: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """Yield the content of the new file of weights: one weight, and what fills its last page."""
    large = [w for w in old.model.graph.initializer if w.data_location == w.EXTERNAL]
    for weight in sorted(large, key=lambda tensor: ExternalDataInfo(tensor).offset or 0):
        is_trained = weight.name.startswith(TRAINED)
        array = weights[weight.name.removeprefix(TRAINED)] if is_trained else old.read(weight)
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % PAGE_BYTES)
