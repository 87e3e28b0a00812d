"""The engine's session of a child: nothing is optimised or prepacked unless asked."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from partita.engine.base import Blob
from partita.engine.packed import split_location, unpack_blob
from partita.engine.session import SPIN_US, SessionConfig, open_session
from partita.loading.bundle.manifest import PackedWeight


def open_child(
    path: Path,
    threads: int,
    *,
    prepack: bool = False,
    weights: Path | None = None,
    packed: Sequence[PackedWeight] = (),
) -> Any:
    """The session of a child; what the engine raises is passed on.

    Args:
        path: The child's ONNX file, its weights beside it.
        weights: Their file, where some are packed.
        packed: Those that are.

    Raises:
        ValueError: A packed weight is damaged.
    """
    config = SessionConfig(
        threads=threads,
        optimise="none",
        prepack=prepack,
        spin_us=SPIN_US,
        # Else the second request would have new memory, of the sizes that the first one saw.
        memory_plan=False,
    )
    return open_session(path, config, _unpack(weights, packed) if weights and packed else None)


def _unpack(path: Path, packed: Sequence[PackedWeight]) -> dict[str, Blob]:
    """What a child names: the file of its weights, mapped, and those that are packed in it."""
    with path.open("rb") as file:
        whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    blobs: dict[str, Blob] = {path.name: whole}
    for one in packed:
        blob = whole[one.start : one.start + one.size_bytes]
        blobs[one.location] = unpack_blob(blob, split_location(one.location)[1])
    return blobs
