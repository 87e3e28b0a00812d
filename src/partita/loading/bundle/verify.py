"""Whether what is in a bundle is what the manifest says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from partita.errors import BundleError
from partita.files import require_regular
from partita.loading.bundle.manifest import WEIGHTS, Manifest, TrainableSource, Variant, hash_file


def check_files(folder: Path, variant: Variant) -> None:
    """Compare the children with their hashes, and the weights with their size.

    Raises:
        BundleError: A file is missing, or is not what the manifest says.
    """
    for child in variant.children:
        _check_hash(folder / child.file, child.hash)
        if child.weights:
            _check_size(folder / child.weights, child.size_bytes)
    _check_size(folder / WEIGHTS, variant.weights_bytes)


def _check_size(path: Path, wanted: int) -> None:
    try:
        require_regular(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BundleError(
            f"Weights '{path}' cannot be read: {error.strerror}.", subject=str(path)
        ) from None
    if size != wanted:
        raise BundleError(
            f"Weights '{path}' have {size} bytes, the manifest says {wanted}."
            " Split the model again.",
            subject=str(path),
        )


def find_altered_weights(
    folder: Path, variant: Variant, is_over: Callable[[], bool] = lambda: False
) -> BundleError | None:
    """The error that says that the weights are not those of the manifest, or None.

    It reads all of them; :func:`check_files` does not.

    Args:
        is_over: Asked now and then whether nobody wants to know any more.
    """
    own = [(child.weights, child.weights_hash) for child in variant.children if child.weights]
    for name, wanted in ((WEIGHTS, variant.weights_hash), *own):
        path = folder / name
        try:
            digest = hash_file(path, is_over)
            if is_over():
                return None
            if digest != wanted:
                return BundleError(_altered("Weights", path, wanted), subject=str(path))
        except OSError as error:
            return BundleError(
                f"Weights '{path}' cannot be read: {error.strerror}.", subject=str(path)
            )
    return None


def check_source(folder: Path, source: TrainableSource) -> None:
    """Compare what a child is trained from with its hashes.

    Raises:
        BundleError: A file is missing, or is not what the manifest says.
    """
    for name, wanted in ((source.file, source.hash), (source.weights, source.weights_hash)):
        _check_hash(folder / name, wanted)


def verify_bundle(home: str | Path, manifest: Manifest) -> None:
    """Compare all files of a bundle with their hashes.

    Raises:
        BundleError: A file is missing, or is not what the manifest says.
    """
    for variant in manifest.variants:
        folder = Path(home) / variant.name
        check_files(folder, variant)
        fault = find_altered_weights(folder, variant)
        if fault is not None:
            raise fault
        for child in variant.children:
            if child.source is not None:
                check_source(folder, child.source)


def _check_hash(path: Path, wanted: str) -> None:
    try:
        digest = hash_file(path)
    except OSError as error:
        message = f"Child '{path}' is missing or cannot be read: {error.strerror}."
        raise BundleError(message, subject=str(path)) from None
    if digest != wanted:
        raise BundleError(_altered("Child", path, wanted), subject=str(path))


def _altered(what: str, path: Path, wanted: str) -> str:
    return (
        f"{what} '{path}' altered: the hash is not {wanted[:12]}, which the manifest says."
        " Split the model again."
    )
