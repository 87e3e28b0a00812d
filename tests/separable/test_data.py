"""Reading pictures with classes."""

import gzip
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from partita.errors import InputError
from partita.quantisation.pictures import read_pixels
from partita.separable import data as reading
from partita.separable.data import find_dataset, read_dataset

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


def test_smaller_pictures_are_padded_and_larger_ones_refused(tmp_path: Path) -> None:
    """In the middle of black; a larger one is named."""
    for part in ("train", "test"):
        (tmp_path / part / "cat").mkdir(parents=True)
        pixels = _DICE.integers(1, 256, (28, 30, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / part / "cat" / "a.png")
    found = read_dataset(tmp_path).test.images
    assert (found[0, :, 2:30, 1:31] == pixels.transpose(2, 0, 1)).all()
    assert found.sum() == pixels.sum()
    Image.new("RGB", (40, 32)).save(tmp_path / "train" / "cat" / "b.png")
    with pytest.raises(InputError, match=r"b.png' is 40 x 32, allowed are up to 32 x 32"):
        read_dataset(tmp_path)


def test_an_archive_is_read_as_it_is(tmp_path: Path) -> None:
    """With the folder that CIFAR's has in it."""
    images = _DICE.integers(0, 256, (3, 3 * 32 * 32))
    rows = np.concatenate([[[3, 7], [3, 8], [3, 7]], images], 1).astype(np.uint8)
    for name in ("train.bin", "test.bin"):
        (tmp_path / name).write_bytes(rows.tobytes())
    path = tmp_path / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("train.bin", "test.bin"):
            archive.add(tmp_path / name, f"cifar-100-binary/{name}")
    assert find_dataset(str(path)).train.labels.tolist() == [7, 8, 7]
    whole = path.read_bytes()
    # Its checksum, 8 bytes before the end, is behind all that has to be read for the pictures.
    for damaged in (whole[:-200], whole[:-8] + bytes(4) + whole[-4:], b"pictures"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"cifar-100-binary.tar.gz' cannot be read: .*[^:]\.$"):
            find_dataset(str(path))
    path.unlink()
    with pytest.raises(InputError, match=r"gz' cannot be read: No such file or directory\.$"):
        find_dataset(str(path))


def _write_pictures(folder: Path, classes: dict[str, int]) -> None:
    for part in ("train", "test"):
        for name, count in classes.items():
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (4, 4)).save(folder / part / name / f"{number}.png")


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        ({"cat": 1}, r"has 1 picture\(s\) of 1 class\(es\) to train on and 1 to test, allowed are"),
        ({"cat": 3}, r"has 3 picture\(s\) of 1 class\(es\)"),
        ({"cat": 1, "dog": 0}, r"dog' has no pictures"),
    ],
)
def test_too_few_pictures_are_refused(
    classes: dict[str, int], problem: str, tmp_path: Path
) -> None:
    """A network would be right for all of one class; one picture of two is held out."""
    _write_pictures(tmp_path, classes)
    with pytest.raises(InputError, match=problem):
        find_dataset(str(tmp_path))


def test_files_of_no_pictures_are_refused(tmp_path: Path) -> None:
    """MNIST's header may say so, of how many there are and of their extents."""
    _mnist(tmp_path)
    for shape, problem in (((0, 28, 28), "has 0 picture"), ((4, 0, 28), "are 28 x 0, allowed are")):
        _write_idx(tmp_path / "train-images-idx3-ubyte.gz", np.zeros(shape, np.uint8), 0x803)
        labels = np.zeros(shape[0], np.uint8)
        _write_idx(tmp_path / "train-labels-idx1-ubyte.gz", labels, 0x801)
        with pytest.raises(InputError, match=problem):
            find_dataset(str(tmp_path))


def test_hidden_files_are_none_of_the_pictures(tmp_path: Path) -> None:
    """Notebooks and file managers leave some; a folder without its twin is named."""
    _write_pictures(tmp_path, {"cat": 1, "dog": 2})
    (tmp_path / "train" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "train" / "cat" / "._0.png").write_bytes(b"none")
    assert find_dataset(str(tmp_path)).train.labels.tolist() == [0, 1, 1]
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(InputError, match="one for each class; 'cow' is in one of them alone"):
        find_dataset(str(tmp_path))


def test_classes_that_cifar_has_not_are_damage(tmp_path: Path) -> None:
    """Else one wrong byte is a network with so many outputs."""
    for name in ("train.bin", "test.bin"):
        (tmp_path / name).write_bytes(bytes([1, 100, *[0] * 3072]))
    with pytest.raises(InputError, match="is damaged: it has class 100, allowed are 0 to 99"):
        read_dataset(tmp_path)


def test_an_archive_of_something_else_is_named(tmp_path: Path) -> None:
    """By its own name, not by the folder that it was unpacked to."""
    path = tmp_path / "other.tar"
    (tmp_path / "a.txt").write_text("a")
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    with pytest.raises(InputError, match=r"other.tar' holds no pictures"):
        find_dataset(str(path))


def test_data_sets_of_packages_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is missing, what installs it is said."""
    monkeypatch.setitem(reading._PACKAGES, "fashion", (tmp_path / "fashion", "apt-get install it"))
    with pytest.raises(InputError, match="Install it with 'apt-get install it', or name the fold"):
        find_dataset("fashion")
    (tmp_path / "fashion").mkdir()
    _mnist(tmp_path / "fashion")
    assert find_dataset("fashion").is_grey


def _spoil(folder: Path, how: str) -> None:
    images = folder / "train-images-idx3-ubyte.gz"
    if how == "short":
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-5]))
    elif how == "foreign":
        images.write_bytes(gzip.compress(b"hello"))
    elif how == "cut":
        images.write_bytes(images.read_bytes()[:-20])
    elif how == "packed":
        packed = bytearray(gzip.compress(bytes(range(256)) * 90))
        packed[10] |= 6  # a kind of block that there is not
        images.write_bytes(packed)
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
        ("packed", "cannot be read"),
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


def test_pictures_of_16_bits_are_rounded_to_8(tmp_path: Path) -> None:
    """Not cut off at 255, which would be white; those of 32 bits are refused."""
    wide = np.linspace(0, 65535, 32 * 32).astype(np.uint16).reshape(32, 32)
    for part in ("train", "test"):
        (tmp_path / part / "some").mkdir(parents=True)
        Image.fromarray(wide).save(tmp_path / part / "some" / "a.png")
    images = read_dataset(tmp_path).train.images[0]
    assert np.abs(images.astype(float) - wide / 257).max() <= 0.5
    Image.fromarray(wide.astype(np.float32)).save(tmp_path / "train" / "some" / "b.tif")
    with pytest.raises(InputError, match=r"b\.tif' has pixels of 32 bits .*allowed: 8 or 16"):
        read_pixels(tmp_path / "train" / "some" / "b.tif")
