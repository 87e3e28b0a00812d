"""Putting a trained last child into its bundle: the manifest is replaced last, and at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from partita.errors import BundleError
from partita.files import require_room
from partita.loading.bundle.manifest import (
    MANIFEST,
    Child,
    Manifest,
    TrainableSource,
    Variant,
    dump_manifest,
    processor_signature,
    read_manifest,
)
from partita.loading.write.atomic_folder import hold
from partita.loading.write.child_models import optimise_graph, place_weights
from partita.loading.write.trainable_source import read_source, replace_weights
from partita.regions import Array

_SHOWN = 12


def check_room(home: Path, manifest: Manifest) -> None:
    """Raise where :func:`replace_last` could not put a file, before there is one.

    Raises:
        BundleError: No files can be made in a folder of the bundle.
    """
    try:
        for folder in (home, *(home / variant.name for variant in _kept(manifest))):
            require_room(folder)
    except OSError as error:
        raise _refuse(home, error) from None


def replace_last(home: Path, manifest: Manifest, weights: Mapping[str, Array]) -> Manifest:
    """Write the trained last child of every variant, and the manifest that names them.

    The new files have names of their own, and lie beside the old ones until the manifest is
    replaced; whatever fails before that leaves the bundle as it was. Frozen children and their
    weights are not touched. Variants for other processors are left out, since their last child
    cannot be made here.

    Args:
        weights: All weights that may be trained, by the model's names.

    Returns:
        The new manifest.

    Raises:
        BundleError: The bundle cannot be written, is another one by now, or a variant trains other
            weights; it is as it was.
    """
    try:
        with hold(home):
            if read_manifest(home).hash != manifest.hash:
                raise BundleError(
                    f"Bundle '{home}' was replaced while its last child was trained; it is left as"
                    " it is now. Train again.",
                    subject=str(home),
                )
            return _replace_last(home, manifest, weights)
    except OSError as error:
        raise BundleError(
            f"Bundle '{home}' cannot be opened: {error.strerror}.", subject=str(home)
        ) from None


def _replace_last(home: Path, manifest: Manifest, weights: Mapping[str, Array]) -> Manifest:
    fresh: list[Path] = []
    text = b""
    try:
        variants = tuple(
            _replace_in(home / variant.name, variant, weights, fresh) for variant in _kept(manifest)
        )
        renewed = msgspec.structs.replace(manifest, variants=variants)
        text = dump_manifest(renewed)
        aside = home / f".{MANIFEST}.new"
        _write(aside, [text], fresh)
        for folder in (home, *(home / variant.name for variant in variants)):
            _sync_folder(folder)
        os.replace(aside, home / MANIFEST)
    except BaseException as error:
        # An interruption may come after the manifest was replaced: then all of it is done.
        if not text or not _holds(home / MANIFEST, text):
            _remove(fresh)
        if not isinstance(error, OSError):
            raise
        raise _refuse(home, error) from None
    _remove_strays(home, renewed)
    return renewed


def _kept(manifest: Manifest) -> list[Variant]:
    """The variants whose last child can be made here."""
    here = processor_signature()
    return [variant for variant in manifest.variants if variant.processor in ("", here)]


def _refuse(home: Path, error: OSError) -> BundleError:
    return BundleError(
        f"Bundle '{home}' cannot be written: {error.strerror or error}.", subject=str(home)
    )


def _replace_in(
    folder: Path, variant: Variant, weights: Mapping[str, Array], fresh: list[Path]
) -> Variant:
    """The variant with a last child of these weights, whose files are written."""
    old = variant.children[-1]
    stem = f"child-{len(variant.children) - 1}.{_digest(weights)[:_SHOWN]}"
    if old.file == f"{stem}.onnx":
        return variant
    before, names = read_source(folder, old), (f"{stem}.plain.onnx", f"{stem}.plain.bin")
    model, parts = replace_weights(before, weights, names[1])
    graph = model.SerializeToString(deterministic=True)
    source = TrainableSource(
        names[0],
        _write(folder / names[0], [graph], fresh),
        names[1],
        _write(folder / names[1], parts, fresh),
    )
    # The engine reads the weights where they lie.
    path = folder / source.weights
    blobs = {path.name: np.memmap(path, np.uint8, "r")} if path.stat().st_size else {}
    optimised = optimise_graph(graph, blobs, tuned=bool(variant.processor), threads=variant.threads)
    written = place_weights(optimised, f"{stem}.bin", 0)
    del optimised
    child = Child(
        file=f"{stem}.onnx",
        hash=_write(folder / f"{stem}.onnx", [written.graph], fresh),
        layers=old.layers,
        start=0,
        size_bytes=written.size_bytes,
        trainable=True,
        source=source,
        weights=f"{stem}.bin",
        weights_hash=_write(folder / f"{stem}.bin", written.weights, fresh),
    )
    return msgspec.structs.replace(variant, children=(*variant.children[:-1], child))


def _digest(weights: Mapping[str, Array]) -> str:
    """A hash of all weights."""
    digest = hashlib.sha256()
    for name, array in sorted(weights.items()):
        digest.update(f"{name} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write(path: Path, parts: Iterable[bytes | memoryview], fresh: list[Path]) -> str:
    """Write a new file so that it is on the disk, and return its SHA-256."""
    fresh.append(path)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Let the names of new files be on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _remove_strays(home: Path, manifest: Manifest) -> None:
    """Remove what no child is any more; what cannot be removed does no harm."""
    needed = {path for variant in manifest.variants for path in _files(home, variant)}
    with suppress(OSError):
        _remove(path for path in home.glob("*/child-*") if path not in needed)
        _remove(home.glob(f".{MANIFEST}.new"))


def _files(home: Path, variant: Variant) -> list[Path]:
    """The files of a variant's children that are theirs alone."""
    names: list[str] = []
    for child in variant.children:
        names += [child.file, child.weights]
        if child.source is not None:
            names += [child.source.file, child.source.weights]
    return [home / variant.name / name for name in names if name]
