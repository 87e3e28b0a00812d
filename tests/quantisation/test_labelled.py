"""Labelled data of a user's own: a folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partita.errors import InputError
from partita.quantisation import read_samples
from partita.quantisation.held_out import read_data
from tests.quantisation.networks import draw_samples, small_graph

GRAPH = small_graph()  # which answers five classes
SAMPLES = draw_samples(6)


def _write(folder: Path, name: str, samples: list[dict[str, np.ndarray]]) -> None:
    (folder / name).mkdir()
    for number, sample in enumerate(samples):
        np.save(folder / name / f"{number}.npy", sample["x"])


def test_folders_named_by_numbers_are_these_classes(tmp_path: Path) -> None:
    """Not every class needs a folder; numbers need not be of one length."""
    _write(tmp_path, "4", SAMPLES[:2])
    _write(tmp_path, "01", SAMPLES[2:3])
    data = read_data(GRAPH, [str(tmp_path)])
    assert [sample.label for sample in data] == [1, 4, 4]
    assert np.array_equal(data[0].feeds["x"], SAMPLES[2]["x"])


def test_folders_with_names_are_the_classes_in_order(tmp_path: Path) -> None:
    """The first name is class 0; what else lies there is no class."""
    for name in ("e", "b", "a", "d", "c"):
        _write(tmp_path, name, SAMPLES[:1])
    (tmp_path / "README").write_text("?")
    assert [sample.label for sample in read_data(GRAPH, [str(tmp_path)])] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["cat", "dog"], "has 2 folders, the network answers 5 classes"),
        (["0", "5"], "is of class 5, the network answers 5: allowed are 0 to 4"),
        (["cat"], "has 1 folder, the network answers 5 classes"),
        (["0", "1", "2", "3", "dog"], "dog' is beside folders that are named by the classes' num"),
    ],
)
def test_folders_that_do_not_fit_are_refused(tmp_path: Path, names: list[str], words: str) -> None:
    """In one line with what is allowed."""
    for name in names:
        _write(tmp_path, name, SAMPLES[:1])
    with pytest.raises(InputError) as caught:
        read_data(GRAPH, [str(tmp_path)])
    assert words in caught.value.message


def test_odd_names_are_names(tmp_path: Path) -> None:
    """Spaces and other scripts are read; hidden folders, of notebooks and managers, are none."""
    names = ("a b", "=x", "Ärger", "猫", "ا")
    for name in (*names, ".ipynb_checkpoints"):
        _write(tmp_path, name, SAMPLES[:1])
    found = {sample.path.parent.name: sample.label for sample in read_data(GRAPH, [str(tmp_path)])}
    assert found == {name: place for place, name in enumerate(sorted(names))}


def test_one_class_alone(tmp_path: Path) -> None:
    """A number says which it is."""
    _write(tmp_path, "3", SAMPLES[:2])
    assert [sample.label for sample in read_data(GRAPH, [str(tmp_path)])] == [3, 3]


def test_an_empty_class_is_refused(tmp_path: Path) -> None:
    """A folder without files says so with its name, and what it has instead."""
    _write(tmp_path, "0", [])
    with pytest.raises(InputError, match="0' has no"):
        read_data(GRAPH, [str(tmp_path)])
    (tmp_path / "0" / "cat.tif").write_bytes(b"II*")
    with pytest.raises(InputError, match=r"image files \(.png, .jpg,.*\); it has 'cat.tif'"):
        read_data(GRAPH, [str(tmp_path)])
    with pytest.raises(InputError, match="it has '0/'"):
        read_samples(GRAPH.input_specs, [str(tmp_path)])


@pytest.mark.parametrize("name", ["cut.png", "CUT.JPG", ".hidden.npy"])
def test_an_unreadable_sample_is_named(tmp_path: Path, name: str) -> None:
    """Of whatever kind, and in whichever class."""
    _write(tmp_path, "0", SAMPLES[:2])
    (tmp_path / "0" / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(InputError, match=f"0/{name}' is no readable"):
        read_data(GRAPH, [str(tmp_path)])
