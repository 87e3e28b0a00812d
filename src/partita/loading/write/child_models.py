"""Cutting a model into child models that are optimised before they are shipped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper

from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan
from partita.engine.onnx_facts import read_facts
from partita.engine.packed import collect_blobs, name_packed, pack_narrow
from partita.engine.session import SessionConfig, open_session
from partita.errors import BundleError
from partita.graph import Graph
from partita.loading.bundle.manifest import PackedWeight
from partita.loading.write.trainable_layers import first_trainable
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Array
from partita.units import format_bytes

#: The one device of a bundle's program.
HERE = "here"
#: Bytes: weights of at least this size, which is ONNX's own limit, lie in the file of weights, and
#: begin at multiples of a page, so that they can be mapped.
EXTERNAL_BYTES, PAGE_BYTES = 1024, 4096
_OUTSIDE = "optimized_model_external_initializers"


@dataclass(frozen=True)
class Written:
    """One child on its way into a bundle.

    Attributes:
        graph: The ONNX file, weights outside.
        weights: What is appended to the file of weights, in order of use.
        start: Where they begin there.
        packed: Those of them that are unpacked when the child is loaded.
    """

    graph: bytes
    weights: list[bytes]
    start: int
    packed: tuple[PackedWeight, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of its weights, gaps included."""
        return sum(map(len, self.weights))


def cut_children(graph: Graph, ends: Sequence[int]) -> Compiled:
    """The model as a program of one device: a fragment for each range of layers.

    Args:
        ends: Numbers of layers before which each child ends, in the graph's order; the last one is
            the number of all layers.

    Raises:
        BundleError: The ends are not increasing, or do not end with the last layer.
    """
    return compile_plan(graph, plan_children(graph, ends), Cluster.of([HERE]))


def plan_children(graph: Graph, ends: Sequence[int]) -> Plan:
    """The plan of one device and a stage per child.

    Raises:
        BundleError: As :func:`cut_children`.
    """
    total = len(graph.layers)
    if not ends or ends[-1] != total or any(a >= b for a, b in pairwise((0, *ends))):
        raise BundleError(
            f"Children end after layers {', '.join(map(str, ends)) or 'none'}: allowed are"
            f" increasing numbers from 1 to {total}, the last of them {total}."
        )
    cluster = Cluster.of([HERE])
    names = [layer.name for layer in graph.layers]
    stages = tuple(
        Stage(f"child-{number}", tuple(names[start:stop]), "none", (Shard(HERE),))
        for number, (start, stop) in enumerate(pairwise((0, *ends)))
    )
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return Plan(*identities, stages, planner="loading")


def optimise(compiled: Compiled, fragment: int, *, tuned: bool, threads: int) -> onnx.ModelProto:
    """A fragment as the engine would run it, so that loading has nothing left to do.

    Args:
        tuned: For this machine's processor, weights in the engine's own layout; else for all.
    """
    info = compiled.program.fragments[fragment]
    blobs = {name: compiled.blobs[name] for name in info.blobs}
    return optimise_graph(compiled.graphs[info.hash], blobs, tuned=tuned, threads=threads)


def optimise_graph(
    graph: bytes, blobs: Mapping[str, Array], *, tuned: bool, threads: int
) -> onnx.ModelProto:
    """A serialised graph as :func:`optimise` does; ``blobs`` are what it names outside."""
    facts = read_facts(graph)
    with tempfile.TemporaryDirectory(prefix="partita-child-") as folder:
        path = Path(folder) / "child.onnx"
        config = SessionConfig(
            threads=threads,
            optimise="all" if tuned else "extended",
            prepack=False,
            integer_kernels=facts.integer,
            optimised_path=path,
            entries={
                f"{_OUTSIDE}_file_name": "child.bin",
                f"{_OUTSIDE}_min_size_in_bytes": str(EXTERNAL_BYTES),
            },
        )
        try:
            open_session(graph, config, collect_blobs(facts.locations, blobs))
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            _check_space(Path(folder), len(graph) + sum(a.nbytes for a in blobs.values()), error)
            raise
        return onnx.load(path)


def _check_space(folder: Path, size: int, error: Exception) -> None:
    """Say that a folder is full, where that may be why the engine could not write to it."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise BundleError(
            f"Folder '{folder.parent}' for temporary files is full: {format_bytes(free)} are free,"
            f" an optimised child takes about {format_bytes(size)}. TMPDIR names another one.",
            subject=str(folder.parent),
        ) from error


def place_weights(model: onnx.ModelProto, file: str, start: int, *, packs: bool = False) -> Written:
    """The child with its weights in ``file`` from ``start`` on, in the order of use.

    Args:
        model: With its weights inside; it is changed.
        file: Name of the file of weights, beside the child.
        start: A multiple of a page.
        packs: Whether codes of less than a byte are packed.
    """
    weights = {weight.name: weight for weight in model.graph.initializer}
    order = [name for node in model.graph.node for name in node.input if name in weights]
    parts: list[bytes] = []
    packed: list[PackedWeight] = []
    at = start
    for name in dict.fromkeys((*order, *weights)):
        weight = weights[name]
        if not weight.HasField("raw_data"):
            weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight), name))
        data = weight.raw_data
        if len(data) < EXTERNAL_BYTES:
            continue
        blob = pack_narrow(array := onnx.numpy_helper.to_array(weight)) if packs else None
        place, offset = (file, at) if blob is None else (name_packed(str(at), array.dtype.name), 0)
        external_data_helper.set_external_data(weight, place, offset=offset, length=len(data))
        weight.ClearField("raw_data")
        if blob is not None:
            data = blob.tobytes()
            packed.append(PackedWeight(place, at, len(data)))
        filled = data + bytes(-len(data) % PAGE_BYTES)
        parts.append(filled)
        at += len(filled)
    return Written(model.SerializeToString(), parts, start, tuple(packed))


def balanced_ends(graph: Graph, count: int, trainable: Sequence[str] = ()) -> tuple[int, ...]:
    """Ends that give ``count`` children about the same bytes of weights.

    Args:
        trainable: Names of layers that may be trained: the last of several children begins with
            the first of them, the others are balanced.

    Raises:
        BundleError: There are fewer layers than children, or a trainable layer is unknown.
    """
    border = first_trainable(graph, trainable)
    most = border + 1 if border else len(graph.layers)
    if not 1 <= count <= most:
        told = f"{border} layers before the first trainable one" if border else f"{most} layers"
        raise BundleError(f"{count} children: the model has {told}; allowed: 1 to {most}.")
    if border and count > 1:
        return (*_balance(graph, count - 1, border), len(graph.layers))
    return _balance(graph, count, len(graph.layers))


def _balance(graph: Graph, count: int, total: int) -> tuple[int, ...]:
    sizes = np.cumsum([1 + layer.weight_bytes for layer in graph.layers[:total]])
    ends: list[int] = []
    for number in range(1, count):
        wanted = sizes[-1] * number / count
        at = int(np.argmin(np.abs(sizes - wanted))) + 1
        least, most = (ends[-1] if ends else 0) + 1, total - (count - number)
        ends.append(min(max(at, least), most))
    return (*ends, total)
