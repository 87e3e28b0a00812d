"""Samples for ranges, and others apart from them to judge by; a folder per class gives labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from partita.errors import InputError
from partita.graph import Graph
from partita.quantisation.samples import Sample, check_room, is_known, list_files, read_files
from partita.units import format_count

#: Samples that ranges are found from: one in so many, and at most so many. AUTO-SPLIT names no
#: number; beyond 64 ranges of 8 bits hardly move. Not tuned.
_ONE_IN, _MOST_FOR_RANGES = 4, 64
#: Fewer cannot be divided into any that say something.
LEAST_SAMPLES = 8


def read_data(graph: Graph, texts: Sequence[str]) -> list[Sample]:
    """Samples from files and folders; those of a folder per class have their labels.

    Args:
        texts: As for :func:`partita.quantisation.read_samples`, or one folder with a folder per
            class: those named by whole numbers are the classes of these places among the network's
            answers; with other names there must be one for every answer, in the order of names.

    Raises:
        InputError: As there; or folders do not fit the network's answers; or samples do not fit in
            memory.
    """
    specs = graph.input_specs
    if len(texts) != 1 or not _has_classes(Path(texts[0])):
        return read_files(specs, texts, finite=True)
    classes = count_classes(graph)
    if classes is None:
        raise InputError(
            f"Folder '{texts[0]}' has folders of classes, but model '{graph.name}' answers no"
            " scores of classes: give files alone, and a judge.",
            subject=texts[0],
        )
    places = _place_folders(Path(texts[0]), classes)
    count = sum(len(list_files(path)) for path, _ in places)
    check_room(count, count * sum(spec.size_bytes for spec in specs), "--samples")
    return [
        Sample(sample.feeds, sample.path, label)
        for path, label in places
        for sample in read_files(specs, [str(path)], finite=True)
    ]


def _place_folders(folder: Path, classes: int) -> list[tuple[Path, int]]:
    """The folders of classes in the order of names, with their places.

    Raises:
        InputError: They do not fit the number of classes.
    """
    paths = sorted(filter(_is_class, folder.iterdir()))
    named = [path for path in paths if not path.name.isdecimal()]
    if not named:
        places = [(path, int(path.name)) for path in paths]
        for path, label in places:
            if label >= classes:
                raise InputError(
                    f"Folder '{path}' is of class {label}, the network answers {classes}: allowed"
                    f" are 0 to {classes - 1}.",
                    subject=str(path),
                )
        return places
    if len(named) < len(paths):
        raise InputError(
            f"Folder '{named[0]}' is beside folders that are named by the classes' numbers: allowed"
            " are whole numbers from 0 for all, or names for all.",
            subject=str(named[0]),
        )
    if len(paths) != classes:
        raise InputError(
            f"Directory '{folder}' has {format_count(len(paths), 'folder')}, the network answers"
            f" {classes} classes: give a folder for each, or name folders by the classes' numbers,"
            " from 0.",
            subject=str(folder),
        )
    return [(path, label) for label, path in enumerate(paths)]


def _has_classes(path: Path) -> bool:
    """Whether a folder holds folders, and no samples beside them."""
    inside = list(path.iterdir()) if path.is_dir() else []
    return any(map(_is_class, inside)) and not any(map(is_known, inside))


def _is_class(path: Path) -> bool:
    """Whether a path is the folder of a class: hidden ones are of file managers and notebooks."""
    return path.is_dir() and not path.name.startswith(".")


def count_classes(graph: Graph) -> int | None:
    """How many classes a network tells apart: its one output is a score for each; else None."""
    spec = graph.tensors[graph.outputs[0]]
    extents = [extent for extent in spec.shape if extent != 1]
    if len(graph.outputs) != 1 or "float" not in spec.dtype or len(extents) != 1:
        return None
    return extents[0] if extents[0] > 1 else None


def divide_samples(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Samples that ranges are found from, and all others, to judge by.

    What they hold decides, so that no file's name does, and equal samples count once.

    Raises:
        InputError: They are too few, or equal ones have different labels.
    """
    distinct: dict[bytes, Sample] = {}
    for sample in samples:
        known = distinct.setdefault(_digest(sample), sample)
        if known.label != sample.label:
            raise InputError(
                f"Samples '{known.path}' and '{sample.path}' are equal, but of classes"
                f" {known.label} and {sample.label}.",
                subject=str(sample.path),
            )
    if len(distinct) < LEAST_SAMPLES:
        raise InputError(
            f"There are {len(distinct)} different samples, needed are at least {LEAST_SAMPLES}:"
            " ranges are found from some, accuracy is judged by the others.",
            subject="--samples",
        )
    ordered = [distinct[key] for key in sorted(distinct)]
    count = min(_MOST_FOR_RANGES, len(ordered) // _ONE_IN)
    return ordered[:count], ordered[count:]


def _digest(sample: Sample) -> bytes:
    digest = hashlib.sha256()
    for name, array in sample.feeds.items():
        digest.update(f"{name} {array.shape} {array.dtype}\0".encode())
        digest.update(array.tobytes())
    return digest.digest()


def digest_samples(samples: Sequence[Sample]) -> str:
    """One hash of what samples hold, in their order."""
    return hashlib.sha256(b"".join(map(_digest, samples))).hexdigest()
