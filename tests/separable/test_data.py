"""Reading pictures with classes."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partita.errors import InputError
from partita.separable.data import read_dataset

_DICE = np.random.default_rng(0)


def _write_idx(path: Path, values: np.ndarray, magic: int, *, zipped: bool = True) -> None:
    content = struct.pack(f">{1 + values.ndim}I", magic, *values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(content) if zipped else content)


def _mnist(folder: Path, *, zipped: bool = True) -> np.ndarray:
    end = ".gz" if zipped else ""
    images = _DICE.integers(0, 256, (4, 28, 28)).astype(np.uint8)
    for stem in ("train", "t10k"):
        labels = np.array([0, 1, 2, 1], np.uint8)
        _write_idx(folder / f"{stem}-images-idx3-ubyte{end}", images, 0x803, zipped=zipped)
        _write_idx(folder / f"{stem}-labels-idx1-ubyte{end}", labels, 0x801, zipped=zipped)
    return images


@pytest.mark.parametrize("zipped", [True, False])
def test_mnists_files_are_padded(zipped: bool, tmp_path: Path) -> None:
    """To 32 x 32, in three channels."""
    images = _mnist(tmp_path, zipped=zipped)
    data = read_dataset(tmp_path)
    assert data.train.images.shape == (4, 3, 32, 32)
    assert (data.train.images[:, 1, 2:30, 2:30] == images).all()
    assert data.train.images[:, :, :2].max() == 0
    assert data.test.labels.tolist() == [0, 1, 2, 1]
    assert (data.classes, data.is_grey) == (3, True)


@pytest.mark.parametrize("labels", [1, 2])
def test_cifars_archives(labels: int, tmp_path: Path) -> None:
    """Of ten and of a hundred classes."""
    images = _DICE.integers(0, 256, (3, 3 * 32 * 32)).astype(np.uint8)
    rows = np.concatenate([np.full((3, labels), [[9] * (labels - 1) + [4]]), images], 1)
    content = rows.astype(np.uint8).tobytes()
    names = (
        [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
        if labels == 1
        else ["train.bin", "test.bin"]
    )
    for name in names:
        (tmp_path / name).write_bytes(content)
    data = read_dataset(tmp_path)
    assert len(data.train) == (15 if labels == 1 else 3)
    assert (data.test.images == images.reshape(3, 3, 32, 32)).all()
    assert data.test.labels.tolist() == [4, 4, 4]
    assert not data.is_grey


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    """Pictures as they are."""
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            pixels = _DICE.integers(0, 256, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / part / name / "a.png")
    data = read_dataset(tmp_path)
    assert data.test.labels.tolist() == [0, 1]
    assert (data.test.images[1] == pixels.transpose(2, 0, 1)).all()


def _spoil(folder: Path, how: str) -> None:
    images = folder / "train-images-idx3-ubyte.gz"
    if how == "short":
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-5]))
    elif how == "foreign":
        images.write_bytes(gzip.compress(b"hello"))
    elif how == "cut":
        images.write_bytes(images.read_bytes()[:-20])
    elif how == "labels":
        labels = np.zeros(3, np.uint8)
        _write_idx(folder / "train-labels-idx1-ubyte.gz", labels, 0x801)
    elif how == "lacks":
        (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    else:
        for path in folder.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("short", "holds 3131 bytes, its header says"),
        ("foreign", "is not of MNIST's format"),
        ("cut", "cannot be read"),
        ("labels", "has 4 pictures and 3 labels"),
        ("lacks", "lacks t10k-labels"),
        ("empty", "holds no pictures"),
    ],
)
def test_damage_is_named(how: str, problem: str, tmp_path: Path) -> None:
    """Which file, and what about it."""
    _mnist(tmp_path)
    _spoil(tmp_path, how)
    with pytest.raises(InputError, match=problem):
        read_dataset(tmp_path)
