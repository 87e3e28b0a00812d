"""Writing a bundle: all of it, or nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from pathlib import Path

import msgspec
import onnx

from partita.compile import Compiled
from partita.errors import BundleError
from partita.graph import Graph
from partita.graph.quantised import MOST_PACKED
from partita.loading.bundle.manifest import (
    MANIFEST,
    WEIGHTS,
    Child,
    Manifest,
    TrainableSource,
    Variant,
    check_count,
    dump_manifest,
    engine_name,
    processor_signature,
)
from partita.loading.write.atomic_folder import check_target, open_replacement
from partita.loading.write.child_models import Written, cut_children, optimise, place_weights
from partita.loading.write.trainable_layers import first_trainable
from partita.loading.write.trainable_source import write_source
from partita.naming import NAME_RULE, is_name
from partita.program import Program

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Division:
    """How one variant of a bundle divides the model.

    Attributes:
        name: Of the variant, and of its folder.
        ends: Numbers of layers before which each child ends; the last one is all layers.
        tuned: For this machine's processor alone; else for all.
        measured_on: Signature of the processor that it was chosen on, where it was measured.
    """

    name: str
    ends: tuple[int, ...]
    device: str = "this-machine"
    tuned: bool = True
    threads: int = 1
    loaders: int = 1
    prepack: bool = False
    measured_on: str = ""


def write_bundle(
    graph: Graph,
    divisions: Iterable[Division],
    folder: str | Path,
    *,
    trainable: Sequence[str] = (),
    progress: Progress | None = None,
) -> Manifest:
    """Write the model's children to ``folder``; a bundle that is there is replaced at the end.

    Args:
        divisions: A variant each, the preferred first.
        folder: Of the bundle; made if it is missing.
        trainable: Names of layers that may be trained; they must lie in the last child.
        progress: Called before each child, with the number done, of all, and a name.

    Raises:
        BundleError: A division is impossible, a trainable layer is outside the last child, the
            folder holds something else, or it cannot be written; what was there is left as it was.
    """
    target, chosen = Path(os.path.realpath(folder)), list(divisions)
    _check_divisions(chosen)
    for division in chosen:
        _check_trainable(graph, division, trainable)
    total, done = sum(len(division.ends) for division in chosen), 0

    def tell(name: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, total, name)
        done += 1

    try:
        check_target(target)
        with open_replacement(target) as home:
            variants = tuple(
                _write_variant(graph, division, home, trainable, tell) for division in chosen
            )
            manifest = Manifest(graph.name, graph.hash, engine_name(), variants)
            (home / MANIFEST).write_bytes(dump_manifest(manifest))
    except OSError as error:
        raise BundleError(
            f"Bundle '{target}' cannot be written: {error.strerror or error}.", subject=str(target)
        ) from None
    return manifest


def _check_divisions(divisions: Sequence[Division]) -> None:
    """Refuse what could not be read again."""
    if not divisions:
        raise BundleError("No divisions: a bundle has at least one.")
    names: set[str] = set()
    for division in divisions:
        if not (isinstance(division.name, str) and is_name(division.name)):
            raise BundleError(f"Division {division.name!r:.80} is no name; allowed: {NAME_RULE}.")
        if division.name in names:
            raise BundleError(
                f"Two divisions are called '{division.name}'; allowed: a name for each."
            )
        names.add(division.name)
        for what in ("threads", "loaders"):
            check_count(f"Division '{division.name}', {what}", getattr(division, what))
        if not all(isinstance(end, Integral) for end in division.ends):
            raise BundleError(
                f"Division '{division.name}' ends after layers {division.ends!r}; allowed: whole"
                " numbers."
            )


def _check_trainable(graph: Graph, division: Division, trainable: Sequence[str]) -> None:
    first = first_trainable(graph, trainable)
    last = (0, *division.ends)[-2] if division.ends else 0
    if trainable and first < last:
        name = graph.layers[first].name
        raise BundleError(
            f"Trainable layer '{name}' is number {first + 1} of {len(graph.layers)}, the last"
            f" child begins with number {last + 1}: it must hold all trainable layers.",
            subject=name,
        )


def _write_variant(
    graph: Graph,
    division: Division,
    folder: Path,
    trainable: Sequence[str],
    tell: Callable[[str], None],
) -> Variant:
    compiled = cut_children(graph, division.ends)
    source = write_source(graph, division.ends, trainable) if trainable else None
    home = folder / division.name
    home.mkdir()
    children: list[Child] = []
    names = [layer.name for layer in graph.layers]
    digest, size, packs = hashlib.sha256(), 0, _has_narrow(graph)
    with (home / WEIGHTS).open("wb") as weights:
        for number, (start, stop) in enumerate(pairwise((0, *division.ends))):
            tell(f"{division.name}, child {number}")
            model = optimise(compiled, number, tuned=division.tuned, threads=division.threads)
            written = place_weights(model, WEIGHTS, size, packs=packs)
            for part in written.weights:
                weights.write(part)
                digest.update(part)
            children.append(_write_child(home, number, written, names[start:stop]))
            size += written.size_bytes
        weights.flush()
        os.fsync(weights.fileno())
    if source is not None:
        children[-1] = _add_source(home, children[-1], source)
    return Variant(
        division.name,
        division.device,
        processor_signature() if division.tuned else "",
        _bare_program(compiled),
        tuple(children),
        size,
        digest.hexdigest(),
        division.threads,
        division.loaders,
        division.prepack,
        division.measured_on,
    )


def _has_narrow(graph: Graph) -> bool:
    """Whether weights are codes of fewer bits than a byte has, on kernels that take these."""
    weights = (packing for name, packing in graph.packings.items() if name in graph.constants)
    return graph.integer and any(packing.bits < MOST_PACKED for packing in weights)


def _write_child(home: Path, number: int, written: Written, layers: Sequence[str]) -> Child:
    name = f"child-{number}.onnx"
    (home / name).write_bytes(written.graph)
    digest = hashlib.sha256(written.graph).hexdigest()
    return Child(
        name,
        digest,
        tuple(layers),
        written.start,
        written.size_bytes,
        packed=written.packed,
    )


def _add_source(home: Path, child: Child, model: onnx.ModelProto) -> Child:
    """The last child with what it is trained from."""
    stem = f"{Path(child.file).stem}.plain"
    written = place_weights(model, f"{stem}.bin", 0)
    weights = b"".join(written.weights)
    hashes = [hashlib.sha256(data).hexdigest() for data in (written.graph, weights)]
    source = TrainableSource(f"{stem}.onnx", hashes[0], f"{stem}.bin", hashes[1])
    (home / source.file).write_bytes(written.graph)
    (home / source.weights).write_bytes(weights)
    return msgspec.structs.replace(child, trainable=True, source=source)


def _bare_program(compiled: Compiled) -> Program:
    """The program without the fragments' hashes: the children have their own."""
    infos = tuple(
        msgspec.structs.replace(info, hash="", blobs=(), blob_bytes=())
        for info in compiled.program.fragments
    )
    return msgspec.structs.replace(compiled.program, fragments=infos)
