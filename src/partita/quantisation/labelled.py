"""A user's own labelled data, and how many of a classifier's answers are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from partita.errors import InputError
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.quantisation.samples import Feeds, read_samples


@dataclass(frozen=True)
class Labelled:
    """Inputs of a classifier, and what they are.

    Attributes:
        feeds: One request each.
        labels: The place of each one's class among the network's answers, from 0.
    """

    feeds: tuple[Feeds, ...]
    labels: tuple[int, ...]


def read_labelled(graph: Graph, folder: Path) -> Labelled:
    """Inputs in a folder per class.

    Folders named by whole numbers are the classes of these places among the network's answers.
    With other names there must be a folder for every answer, in the order of names.

    Args:
        folder: Of folders of arrays or images, as :func:`read_samples` takes them.

    Raises:
        InputError: There are no such folders, or they do not fit the network's answers, or a file
            is unfit.
    """
    classes = prod(graph.tensors[graph.outputs[0]].shape)
    places = place_folders(folder, classes)
    rows = [
        (feeds, label)
        for path, label in places
        for feeds in read_samples(graph.input_specs, [str(path)])
    ]
    return Labelled(tuple(feeds for feeds, _ in rows), tuple(label for _, label in rows))


def place_folders(folder: Path, classes: int) -> list[tuple[Path, int]]:
    """The folders of classes in the order of names, with their places.

    Raises:
        InputError: There are none, or they do not fit the number of classes.
    """
    paths = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not paths:
        raise InputError(
            f"Directory '{folder}' has no folder per class: labelled data lies in folders, each"
            " with the files of one class.",
            subject=str(folder),
        )
    if all(path.name.isdecimal() for path in paths):
        places = [(path, int(path.name)) for path in paths]
        for path, label in places:
            if label >= classes:
                raise InputError(
                    f"Folder '{path}' is of class {label}, the network answers {classes}: allowed"
                    f" are 0 to {classes - 1}.",
                    subject=str(path),
                )
        return places
    if len(paths) != classes:
        raise InputError(
            f"Directory '{folder}' has {len(paths)} folders, the network answers {classes} classes:"
            " give a folder for each, or name folders by the classes' numbers, from 0.",
            subject=str(folder),
        )
    return [(path, label) for label, path in enumerate(paths)]


def label_by(graph: Graph, feeds: Sequence[Feeds]) -> Labelled:
    """Inputs labelled by what a network answers: judged by them, accuracy is agreement with it."""
    return Labelled(tuple(feeds), tuple(_answer_largest(graph, feeds)))


def measure_top1(graph: Graph, data: Labelled) -> float:
    """The part of inputs for which the largest answer is that of their class (top-1 accuracy).

    Raises:
        InputError: There are none.
    """
    if not data.labels:
        raise InputError("There is no labelled data: accuracy is measured on some.")
    answers = _answer_largest(graph, data.feeds)
    right = sum(answer == label for answer, label in zip(answers, data.labels, strict=True))
    return right / len(data.labels)


def _answer_largest(graph: Graph, feeds: Sequence[Feeds]) -> list[int]:
    """The place of the largest of the first output's numbers, for each input."""
    model, output = WholeModel(graph), graph.outputs[0]
    return [int(model.run(one)[output].argmax()) for one in feeds]
