"""Content on its way to a worker: what it lacks, in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import CHUNK_BYTES, Have, Missing, Put


def push_contents(
    group: WorkerGroup,
    place: tuple[str, int],
    contents: Mapping[str, Any],
    timeout_s: float,
    *,
    beside: Iterable[str] = (),
    breathe: Callable[[float], None] = lambda seconds: None,
) -> int:
    """Push what a worker lacks; the bytes that were sent.

    Args:
        group: The workers.
        place: The device, and the epoch that its store keeps the content for.
        contents: Bytes or arrays by their SHA-256.
        timeout_s: Longest wait for the worker, which hashes its copies first.
        beside: Devices without which this one has no use for the content.
        breathe: Called after each chunk with the seconds that it took: may wait, for others to get
            through, and may raise to end it.

    Raises:
        LinkError: The worker is lost, or one beside it.
        RunError: It refuses.
    """
    device, epoch = place
    have = Have(epoch, tuple(contents))
    missing = group.ask(device, "have", have, Missing, timeout_s=timeout_s)
    pushed_bytes = 0
    for name in missing.hashes:
        data = as_bytes(contents[name])
        size = len(data)
        for offset in range(0, max(size, 1), CHUNK_BYTES):
            group.require(beside, "put")
            chunk = bytes(data[offset : offset + CHUNK_BYTES])
            began_s = time.monotonic()
            group.tell(device, "put", Put(name, offset, size, chunk))
            breathe(time.monotonic() - began_s)
        pushed_bytes += size
    return pushed_bytes


def as_bytes(content: Any) -> memoryview:
    """A flat view of bytes or of an array's bytes."""
    if isinstance(content, np.ndarray):
        flat: npt.NDArray[np.uint8] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        return flat.data
    return memoryview(content).cast("B")
