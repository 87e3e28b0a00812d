"""Samples for ranges and others to judge by; folders as classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from partita.errors import InputError
from partita.graph import Graph, load_graph
from partita.quantisation import Sample, count_classes, divide_samples, read_data
from tests.models import make_model


def _sample(*values: float, label: int | None = None) -> Sample:
    return Sample({"x": np.array([values], np.float32)}, Path(f"{values[0]}.npy"), label)


def _write(folder: Path, *values: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for value in values:
        np.save(folder / f"{value}.npy", np.full((1, 2), value, np.float32))


def _first(samples: list[Sample]) -> set[float]:
    return {float(sample.feeds["x"][0, 0]) for sample in samples}


def test_the_two_parts_share_nothing_and_names_do_not_matter() -> None:
    """Every sample is in one part, also where a picture is there twice; a quarter is for ranges."""
    samples = [_sample(n, n) for n in range(40)]
    for_ranges, data = divide_samples(samples + samples[:7])
    assert (len(for_ranges), len(data)) == (10, 30)
    assert not _first(for_ranges) & _first(data)
    again = divide_samples(samples[::-1])
    assert [_first(part) for part in again] == [_first(for_ranges), _first(data)]
    assert len(divide_samples([_sample(n, n) for n in range(400)])[0]) == 64


def test_too_few_and_contradicting_samples_are_refused() -> None:
    """One line each."""
    with pytest.raises(InputError, match="There are 7 different samples, needed are at least 8"):
        divide_samples([_sample(n % 7, 0) for n in range(20)])
    with pytest.raises(InputError, match=r"'1.npy' and '1.npy' are equal, but of classes 0 and 2"):
        divide_samples([_sample(1, label=0), _sample(1, label=2)])


def _network(*outputs: int, width: int = 2) -> Graph:
    """Return a network of one input that answers so many numbers for each output."""
    names = [f"y{number}" for number in range(len(outputs))]
    nodes = [
        helper.make_node("MatMul", ["x", f"w{number}"], [name], name=f"dense{number}")
        for number, name in enumerate(names)
    ]
    weights = {f"w{n}": np.ones((width, extent), np.float32) for n, extent in enumerate(outputs)}
    return load_graph(make_model(nodes, {"x": [1, width]}, names, weights), name="net")


def test_folders_are_classes(tmp_path: Path) -> None:
    """Where there are folders, and no samples beside them; one class alone is a plain folder."""
    _write(tmp_path / "a" / "cat", 1, 2)
    _write(tmp_path / "a" / "dog", 3)
    (tmp_path / "a" / "README").write_text("?")
    data = read_data(_network(2), [str(tmp_path / "a")])
    assert [(sample.path.name, sample.label) for sample in data] == [
        ("1.npy", 0), ("2.npy", 0), ("3.npy", 1),
    ]  # fmt: skip
    assert [s.label for s in read_data(_network(2), [str(tmp_path / "a" / "cat")])] == [None] * 2
    _write(tmp_path / "a", 4)
    assert [s.label for s in read_data(_network(2), [str(tmp_path / "a")])] == [None]


@pytest.mark.parametrize(
    ("folder", "outputs", "words"),
    [
        ("a", (5,), "has 2 folders, the network answers 5 classes"),
        ("a", (2, 2), "model 'net' answers no scores of classes: give files alone, and a judge"),
        ("b", (9,), "is of class 10, the network answers 9: allowed are 0 to 8"),
        ("c", (2,), r"Directory '.*c' has no .npy, .npz or image files"),
        ("d", (2,), r"'.*nan.npy' has 2 values for 'x' that are NaN"),
        ("e", (2,), r"'.*1.npy' has shape \(1, 3\) of float32, model input 'x' needs \(1, 2\)"),
    ],
)
def test_folders_that_cannot_be(
    tmp_path: Path, folder: str, outputs: tuple[int, ...], words: str
) -> None:
    """One line says what is there and what is allowed."""
    _write(tmp_path / "a" / "cat", 1)
    _write(tmp_path / "a" / "dog", 3)
    _write(tmp_path / "b" / "10", 1)
    (tmp_path / "c").mkdir()
    _write(tmp_path / "d" / "0", float("nan"))
    (tmp_path / "e" / "1").mkdir(parents=True)
    np.save(tmp_path / "e" / "1" / "1.npy", np.zeros((1, 3), np.float32))
    with pytest.raises(InputError, match=words):
        read_data(_network(*outputs), [str(tmp_path / folder)])


def test_what_memory_has_no_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read, over all classes together."""
    monkeypatch.setattr("partita.quantisation.samples.MOST_BYTES", 100)
    for number in range(7):
        _write(tmp_path / str(number), *range(2))
        (tmp_path / str(number) / "0.npy").write_bytes(b"")
    with pytest.raises(InputError, match="14 inputs of 8 B each do not fit in memory: allowed"):
        read_data(_network(8), [str(tmp_path)])


def test_classes_are_the_scores_of_one_output() -> None:
    """One axis of more than one number."""
    for outputs, classes in (((10,), 10), ((1,), None), ((10, 10), None)):
        assert count_classes(_network(*outputs)) == classes
