"""Inputs in files: arrays and images, in the shapes that a model's inputs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from partita.errors import InputError
from partita.program import TensorSpec
from partita.quantisation.pictures import prepare_picture, read_pixels
from partita.regions import Array
from partita.units import format_bytes

#: One request: arrays by the names of the model's inputs.
Feeds = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Sample:
    """One request, and what is known of it.

    Attributes:
        path: The file that the first input is from.
        label: Number of its class, as the network counts them; None where that is not known.
    """

    feeds: Feeds
    path: Path
    label: int | None = None


_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_KNOWN = (*_IMAGES, ".npy", ".npz")
#: Inputs are held all at once, so that reading or drawing them takes no time of a run.
MOST_BYTES = 4 * 10**9


def read_samples(specs: Sequence[TensorSpec], texts: Sequence[str]) -> list[Feeds]:
    """Inputs by which ranges are found: as :func:`read_inputs`, and finite.

    Raises:
        InputError: As there; or a file holds NaN or infinity.
    """
    return [sample.feeds for sample in read_files(specs, texts, finite=True)]


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
    return [sample.feeds for sample in read_files(specs, texts, finite=False)]


def read_files(specs: Sequence[TensorSpec], texts: Sequence[str], *, finite: bool) -> list[Sample]:
    """Samples without labels, as :func:`read_inputs`, with the files that they are from.

    Args:
        finite: Whether NaN and infinity are refused.
    """
    known = {spec.name: spec for spec in specs}
    arrays: dict[str, list[tuple[Path, Array]]] = {name: [] for name in known}
    named = [_split_name(list(known), text) for text in texts]
    files = [(name, file) for name, path in named for file in list_files(path)]
    check_room(len(files), sum(known[name].size_bytes for name, _ in files))
    for name, file in files:
        for key, array in _read_file(known[name], file, known).items():
            if finite:
                _check_finite(file, key, array)
            arrays[key].append((file, array))
    counts = {name: len(files) for name, files in arrays.items()}
    if len(set(counts.values())) != 1 or not max(counts.values()):
        numbers = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise InputError(f"Each model input needs the same number of files; got {numbers}.")
    return [
        Sample(dict(zip(arrays, (array for _, array in row), strict=True)), row[0][0])
        for row in zip(*arrays.values(), strict=True)
    ]


def check_room(count: int, size_bytes: int, subject: str = "") -> None:
    """Refuse inputs that memory has no room for.

    Raises:
        InputError: Says how many there are, and what they take.
    """
    if size_bytes > MOST_BYTES:
        raise InputError(
            f"{count} inputs of {format_bytes(size_bytes / count)} each do not fit in memory:"
            f" allowed are {format_bytes(MOST_BYTES)} at once.",
            subject=subject,
        )


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


def is_known(path: Path) -> bool:
    """Whether a file is of a kind that inputs are read from, by its name."""
    return path.suffix.lower() in _KNOWN


def is_image(path: Path) -> bool:
    """Whether a file is a picture, by its name."""
    return path.suffix.lower() in _IMAGES


def list_files(path: Path) -> list[Path]:
    """A file, or those of a folder that are inputs, in the order of names.

    Raises:
        InputError: There is none.
    """
    if path.is_dir():
        files = sorted(filter(is_known, path.iterdir()))
        if not files:
            others = sorted(one.name + "/" * one.is_dir() for one in path.iterdir())
            beside = f"; it has '{others[0]}'" if others else ""
            raise InputError(
                f"Directory '{path}' has no .npy, .npz or image files ({', '.join(_IMAGES)})"
                f"{beside}.",
                subject=str(path),
            )
        return files
    if not path.exists():
        raise InputError(f"Input file '{path}' does not exist.", subject=str(path))
    if not path.is_file():
        raise InputError(f"Input file '{path}' is no regular file.", subject=str(path))
    return [path]


def read_content(path: Path) -> Array | Feeds:
    """What a file holds: pixels (height x width x 3, RGB), an array, or arrays by name.

    Raises:
        InputError: It cannot be decoded, or is of no known kind.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".npz":
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        if kind == ".npy":
            array: Array = np.load(path, allow_pickle=False)
            return array
    except Exception as error:  # whatever damaged bytes make of a decoder
        raise InputError(
            f"Input file '{path}' is no readable {path.suffix} file of numbers or pixels.",
            subject=str(path),
        ) from error
    if not is_image(path):
        raise InputError(
            f"Input file '{path}' is of no known kind; allowed: {', '.join(_KNOWN)}.",
            subject=str(path),
        )
    return read_pixels(path)


def _read_file(spec: TensorSpec, path: Path, known: Mapping[str, TensorSpec]) -> Feeds:
    content = read_content(path)
    if isinstance(content, dict):
        arrays = content
    else:
        arrays = {spec.name: prepare_picture(spec, content) if is_image(path) else content}
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
