"""Files of MNIST's format: a magic number says type and axes, then extents follow, 4 bytes each."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from partita.errors import InputError

_MAGICS = {"images": 0x803, "labels": 0x801}
Bytes = npt.NDArray[np.uint8]
#: Pictures to train on, and others.
MnistPart = Literal["train", "t10k"]


def has_mnist(folder: Path) -> bool:
    """Whether a folder has pictures of MNIST's format to train on."""
    return _find(folder, "train-images") is not None


def read_mnist(folder: Path, part: MnistPart) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Pictures (N, H, W), 0 to 255, and their classes (N,).

    Args:
        folder: With ``train-images-idx3-ubyte`` and so on, gzipped or not.

    Raises:
        InputError: A file is not there or is damaged, or one has more entries than the other.
    """
    images, labels = (_read(folder, f"{part}-{what}", magic) for what, magic in _MAGICS.items())
    if len(images) != len(labels):
        raise InputError(
            f"--data: '{folder}' has {len(images)} pictures and {len(labels)} labels.",
            subject=str(folder),
        )
    return images, labels.astype(np.int64)


def _find(folder: Path, stem: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{stem}*ubyte*"))), None)


def _read(folder: Path, stem: str, magic: int) -> Bytes:
    path = _find(folder, stem)
    if path is None:
        raise InputError(f"--data: '{folder}' lacks {stem}-…-ubyte.", subject=str(folder))
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"--data: '{path}' cannot be read: {error}.", subject=str(path)) from error
    axes = magic & 0xFF
    start = 4 * (1 + axes)
    if len(content) < start or int.from_bytes(content[:4], "big") != magic:
        raise InputError(f"--data: '{path}' is not of MNIST's format.", subject=str(path))
    shape = tuple(int(extent) for extent in np.frombuffer(content[4:start], ">u4"))
    values = np.frombuffer(content[start:], np.uint8)
    if values.size != math.prod(shape):
        raise InputError(
            f"--data: '{path}' holds {values.size} bytes, its header says {shape}.",
            subject=str(path),
        )
    return values.reshape(shape)
