"""Variants of a model: what lies on disk, and how a trial loads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx

from partita.engine.session import SPIN_US, SessionConfig, open_session
from partita.errors import BundleError
from partita.graph import load_graph
from partita.loading.bundle.manifest import WEIGHTS
from partita.loading.write.child_models import EXTERNAL_BYTES, optimise_graph, place_weights
from partita.loading.write.write_bundle import Division, write_bundle

MODEL = "model.onnx"


@dataclass(frozen=True)
class ModelVariant:
    """One form of a model on disk, and how it is loaded; a bundle is one, whatever it holds.

    Attributes:
        engine: ``ort``, ``children``, ``bundle`` or ``torch``.
        path: What the engine is given.
        files: All that it reads.
        settings: How the engine loads it.
    """

    name: str
    engine: str
    path: Path
    files: tuple[Path, ...]
    threads: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


def ship_plain(model: onnx.ModelProto, folder: Path, threads: int) -> list[ModelVariant]:
    """Write one ONNX file with the weights inside; variant ``plain``."""
    path = folder / "plain.onnx"
    path.write_bytes(model.SerializeToString())
    return [ModelVariant("plain", "ort", path, (path,), threads)]


def ship_ort_format(model: onnx.ModelProto, folder: Path, threads: int) -> list[ModelVariant]:
    """Write ONNX Runtime's own format, fully optimised; variant ``ort_format``."""
    path = folder / "model.ort"
    config = SessionConfig(
        threads=threads,
        integer_kernels=True,
        optimised_path=path,
        entries={"save_model_format": "ORT"},
    )
    open_session(model.SerializeToString(), config)
    return [ModelVariant("ort_format", "ort", path, (path,), threads)]


def ship_external(model: onnx.ModelProto, folder: Path, threads: int) -> list[ModelVariant]:
    """Write weights beside the model; variants ``external`` and ``external_no_prepack``."""
    home = folder / "external"
    home.mkdir()
    path = home / MODEL
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    onnx.save_model(
        copied, path, save_as_external_data=True, location=WEIGHTS, size_threshold=EXTERNAL_BYTES
    )
    plain = ModelVariant("external", "ort", path, _files(home), threads)
    return [plain, replace(plain, name="external_no_prepack", settings={"prepack": False})]


def ship_optimised(model: onnx.ModelProto, folder: Path, threads: int) -> list[ModelVariant]:
    """Write the fully optimised model, weights beside it in the order of use.

    Variants ``optimised_prepack``, in which the engine still prepacks weights; ``optimised``, in
    which nothing is left to do; ``optimised_still``, whose threads do not spin; and
    ``optimised_brief``, whose threads spin no longer than a bundle's.
    """
    home = folder / "optimised"
    home.mkdir()
    whole = optimise_graph(model.SerializeToString(), {}, tuned=True, threads=threads)
    written = place_weights(whole, WEIGHTS, 0)
    (home / MODEL).write_bytes(written.graph)
    with (home / WEIGHTS).open("wb") as file:
        file.writelines(written.weights)
    settings = {"optimise": False}
    first = ModelVariant("optimised_prepack", "ort", home / MODEL, _files(home), threads, settings)
    bare = settings | {"prepack": False}
    waits = {
        "optimised": {},
        "optimised_still": {"spin_us": 0},
        "optimised_brief": {"spin_us": SPIN_US},
    }
    return [
        first,
        *(replace(first, name=variant, settings=bare | more) for variant, more in waits.items()),
    ]


def ship_bundle(
    model: onnx.ModelProto,
    folder: Path,
    threads: int,
    ends: Sequence[int],
    *,
    loaders: int = 1,
    prepack: bool = False,
) -> list[ModelVariant]:
    """Write a bundle; variants ``bundle_no_ahead`` and ``bundle``, the latter with read-ahead.

    Args:
        folder: Where a folder is made.
        ends: Numbers of layers before which children end.

    Raises:
        BundleError: The ends are none of this model.
    """
    home = folder / f"bundle-{len(ends)}"
    division = Division("here", tuple(ends), threads=threads, loaders=loaders, prepack=prepack)
    write_bundle(load_graph(model), [division], home)
    without = {"read_ahead": False}
    first = ModelVariant("bundle_no_ahead", "bundle", home, _files(home), threads, without)
    return [first, replace(first, name="bundle", settings={})]


def ship_children(
    model: onnx.ModelProto, folder: Path, threads: int, starts: Sequence[str]
) -> list[ModelVariant]:
    """Write ONNX files of consecutive nodes, the weights inside.

    Variants ``children``, each loaded by a thread of its own, as the paper on modularization does,
    and ``children_in_turn``, one after the other, which tells how long each of them takes alone.

    Args:
        model: Its nodes in the order in which they run.
        starts: As for :func:`ship_torch`.

    Raises:
        BundleError: There is no such node.
    """
    home = folder / f"children-{len(starts)}"
    home.mkdir()
    places = [*find_starts(model, starts), len(model.graph.node)]
    whole = onnx.shape_inference.infer_shapes(model)
    for number, borders in enumerate(pairwise(places)):
        child = _cut(whole, *borders)
        (home / f"child-{number}.onnx").write_bytes(child.SerializeToString())
    settings: dict[str, Any] = {"children": len(starts), "in_turn": False}
    first = ModelVariant("children", "children", home, _files(home), threads, settings)
    return [first, replace(first, name="children_in_turn", settings=settings | {"in_turn": True})]


def _cut(whole: onnx.ModelProto, start: int, stop: int) -> onnx.ModelProto:
    """Nodes ``start`` to ``stop`` as a model; inputs and outputs keep their names."""
    graph = whole.graph
    nodes = graph.node[start:stop]
    outputs = {name for node in nodes for name in node.output}
    asked = dict.fromkeys(name for node in nodes for name in node.input if name)
    weights = [value for value in graph.initializer if value.name in asked]
    inside = outputs | {value.name for value in weights}
    later = {name for node in graph.node[stop:] for name in node.input}
    later |= {value.name for value in graph.output}
    values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    cut = onnx.helper.make_graph(
        nodes,
        graph.name,
        [values[name] for name in asked if name not in inside],
        [values[name] for node in nodes for name in node.output if name in later],
        weights,
    )
    kept = {"opset_imports": whole.opset_import, "ir_version": whole.ir_version}
    return onnx.helper.make_model(cut, **kept)


def ship_torch(
    model: onnx.ModelProto, folder: Path, threads: int, starts: Sequence[str] = ()
) -> list[ModelVariant]:
    """Write checkpoints of PyTorch.

    Variants ``torch_load``, ``torch_mmap`` and, where it is installed, ``torch_safetensors``; and,
    as those of :func:`ship_children`, ``torch_children`` and ``torch_children_in_turn``.

    Args:
        model: The model; one input, one output.
        starts: Nodes with which children begin, or their names up to a full stop; none leaves
            the children out.

    Raises:
        BundleError: An operator has no module, or there is no such node.
        ModuleNotFoundError: PyTorch is not installed.
    """
    from partita.loading.personal.module import read_attributes
    from partita.reproduce.loading.bench import eager

    arrays = {weight.name: onnx.numpy_helper.to_array(weight) for weight in model.graph.initializer}
    layers, weights = [], []
    for node in model.graph.node:
        held = [arrays[name] for name in node.input if name in arrays]
        inputs = tuple(None if name in arrays else name for name in node.input)
        kinds = tuple((array.shape, array.dtype.name) for array in held)
        layers.append(
            eager.Layer(node.op_type, inputs, node.output[0], read_attributes(node), kinds)
        )
        weights.append(held)
    home = folder / "torch"
    home.mkdir()
    files = eager.write_network(layers, weights, find_starts(model, starts), home)
    chosen = tuple(home / name for name in (eager.NETWORK, eager.CHECKPOINT))
    whole = ModelVariant("torch_load", "torch", home, chosen, threads)
    variants = [whole, replace(whole, name="torch_mmap", settings={"mmap": True})]
    if home / eager.SAFETENSORS in files:
        kept = (home / eager.NETWORK, home / eager.SAFETENSORS)
        read = {"safetensors": True}
        variants.append(replace(whole, name="torch_safetensors", files=kept, settings=read))
    parts = tuple(path for path in files if path.name not in (eager.CHECKPOINT, eager.SAFETENSORS))
    for variant, in_turn in (("torch_children", False), ("torch_children_in_turn", True)):
        if starts:
            settings = {"children": len(starts), "in_turn": in_turn}
            variants.append(replace(whole, name=variant, files=parts, settings=settings))
    return variants


def find_starts(model: onnx.ModelProto, starts: Sequence[str]) -> list[int]:
    """Numbers of nodes: the first that is called so, or so up to a full stop.

    Raises:
        BundleError: There is none.
    """
    names = [node.name for node in model.graph.node]
    places = []
    for start in starts:
        place = next((k for k, n in enumerate(names) if f"{n}.".startswith(f"{start}.")), None)
        if place is None:
            raise BundleError(f"The model has no layer '{start}'.", subject=start)
        places.append(place)
    return places


#: Writers of one file or two that need no more than the model.
WRITERS: dict[str, Callable[[onnx.ModelProto, Path, int], list[ModelVariant]]] = {
    "plain": ship_plain,
    "ort_format": ship_ort_format,
    "external": ship_external,
    "optimised": ship_optimised,
}


def _files(home: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in home.rglob("*") if path.is_file()))
