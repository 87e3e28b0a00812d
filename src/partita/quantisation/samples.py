"""Inputs in files: arrays and images, in the shapes that a model's inputs have."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from partita.errors import InputError
from partita.program import TensorSpec
from partita.regions import Array

#: One request: arrays by the names of the model's inputs.
Feeds = dict[str, Array]
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_KNOWN = (*_IMAGES, ".npy", ".npz")


def read_samples(specs: Sequence[TensorSpec], texts: Sequence[str]) -> list[Feeds]:
    """Inputs by which ranges are found: as :func:`read_inputs`, and finite.

    Raises:
        InputError: As there; or a file holds NaN or infinity.
    """
    return _read(specs, texts, finite=True)


def read_inputs(specs: Sequence[TensorSpec], texts: Sequence[str]) -> list[Feeds]:
    """One request per file; directories give their files in the order of names.

    Args:
        specs: The model's inputs, in order.
        texts: ``FILE`` for the first input or ``NAME=FILE`` for another: ``.npy``, ``.npz`` with
            an array per input, an image, or a directory of such.

    Raises:
        InputError: A file is missing, unreadable, or of the wrong shape or type, or the inputs have
            different numbers of files.
    """
    return _read(specs, texts, finite=False)


def _read(specs: Sequence[TensorSpec], texts: Sequence[str], *, finite: bool) -> list[Feeds]:
    known = {spec.name: spec for spec in specs}
    arrays: dict[str, list[Array]] = {name: [] for name in known}
    for text in texts:
        name, path = _split_name(list(known), text)
        for file in _list_files(path):
            for key, array in _read_file(known[name], file, known).items():
                if finite:
                    _check_finite(file, key, array)
                arrays[key].append(array)
    counts = {name: len(files) for name, files in arrays.items()}
    if len(set(counts.values())) != 1 or not max(counts.values()):
        numbers = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise InputError(f"Each model input needs the same number of files; got {numbers}.")
    rows = zip(*arrays.values(), strict=True)
    return [dict(zip(arrays, row, strict=True)) for row in rows]


def _check_finite(path: Path, name: str, array: Array) -> None:
    count = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0
    if count:
        raise InputError(
            f"Input file '{path}' has {count} values for '{name}' that are NaN or infinite: samples"
            " must be finite.",
            subject=str(path),
        )


def _split_name(names: Sequence[str], text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if equals and name in names:
        text = path
    elif equals and not Path(text).exists():
        raise InputError(
            f"Input '{name}' is unknown; the model has: {', '.join(names)}.", subject=name
        )
    else:
        name = names[0]
    if not text:
        raise InputError(f"Input '{name}' needs a file: NAME=FILE.", subject=name)
    return name, Path(text)


def _list_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in _KNOWN)
        if not files:
            raise InputError(
                f"Directory '{path}' has no .npy, .npz or image files.", subject=str(path)
            )
        return files
    if not path.exists():
        raise InputError(f"Input file '{path}' does not exist.", subject=str(path))
    if not path.is_file():
        raise InputError(f"Input file '{path}' is no regular file.", subject=str(path))
    return [path]


def _read_file(spec: TensorSpec, path: Path, known: Mapping[str, TensorSpec]) -> Feeds:
    kind = path.suffix.lower()
    try:
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        elif kind == ".npy":
            arrays = {spec.name: np.load(path, allow_pickle=False)}
        elif kind in _IMAGES:
            arrays = {spec.name: read_image(spec, path)}
        else:
            raise InputError(
                f"Input file '{path}' is of no known kind; allowed: {', '.join(_KNOWN)}.",
                subject=str(path),
            )
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"Input file '{path}' is no readable {path.suffix} file of numbers or pixels.",
            subject=str(path),
        ) from error
    for name, array in arrays.items():
        _check(known, name, array, path)
    return arrays


def _check(known: Mapping[str, TensorSpec], name: str, array: Array, path: Path) -> None:
    if name not in known:
        raise InputError(
            f"Input file '{path}' names '{name}', the model has: {', '.join(known)}.", subject=name
        )
    spec = known[name]
    if array.shape != spec.shape or array.dtype != np.dtype(spec.dtype):
        raise InputError(
            f"Input file '{path}' has shape {array.shape} of {array.dtype}, model input '{name}'"
            f" needs {spec.shape} of {spec.dtype}.",
            subject=str(path),
        )


def read_image(spec: TensorSpec, path: Path) -> Array:
    """An image in a tensor's shape: resized, channels placed, bytes or numbers from 0 to 1.

    Raises:
        InputError: The tensor is no image: it needs one batch entry and 1 or 3 channels.
    """
    from PIL import Image

    shape = spec.shape
    first = len(shape) == 4 and shape[1] in (1, 3)
    last = len(shape) == 4 and shape[3] in (1, 3)
    if not (first or last) or shape[0] != 1:
        raise InputError(
            f"Model input '{spec.name}' of shape {shape} takes no image; give a .npy file.",
            subject=spec.name,
        )
    height, width = shape[2:] if first else shape[1:3]
    channels = shape[1] if first else shape[3]
    with Image.open(path) as image:
        pixels = np.asarray(
            image.convert("L" if channels == 1 else "RGB").resize((width, height))
        ).reshape(height, width, channels)
    ordered = pixels.transpose(2, 0, 1) if first else pixels
    if spec.dtype == "uint8":
        return np.ascontiguousarray(ordered[None])
    return np.ascontiguousarray((ordered[None] / np.float32(255)).astype(spec.dtype))
