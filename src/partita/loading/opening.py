"""Making the engine's session of a child: nothing is optimised or rearranged unless asked."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from partita.engine.base import CPU

_SILENT = 4
#: Runs until a new session is as fast as it gets: the second lays out its memory anew.
_RUNS = 2
_HUGE_BYTES = 2**21
_shared = threading.Lock()
_kept: list[Any] = []


def open_child(
    path: Path,
    threads: int,
    *,
    prepack: bool = False,
    spinning: bool = False,
    alone: bool = False,
    shares_memory: bool = False,
) -> Any:
    """Return the session of a child; whatever the engine raises is passed on.

    Args:
        path: The child's ONNX file, its weights beside it.
        threads: Threads within one operator.
        prepack: Whether weights are rearranged.
        spinning: Whether threads wait busily during a run: it is sooner over, and holds up what
            else the processor has to do, such as loading.
        alone: Whether no other session is used beside it, so that its threads may wait busily
            between runs, too.
        shares_memory: Whether it takes its working memory from what :func:`share_memory` made.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    entries = {
        "disable_prepacking": not prepack,
        "intra_op.allow_spinning": spinning,
        "force_spinning_stop": spinning and not alone,
        "use_env_allocators": shares_memory,
    }
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", str(int(value)))
    return ort.InferenceSession(str(path), options, providers=[CPU])


def share_memory(size: int, *, huge_pages: bool) -> None:
    """Make working memory that sessions may share, so that one that replaces another needs no more.

    It is made once, and the engine keeps it until the process ends. In huge pages, where the system
    has them, it is sooner there: of a small model's first run, half is spent on memory that is
    touched for the first time, one small page after the other.

    Args:
        size: Bytes that are reserved; they take memory when they are used.
        huge_pages: Whether the system is asked for such pages for them.
    """
    if not _shared.acquire(blocking=False):  # never released
        return
    kind = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    info = ort.OrtMemoryInfo("Cpu", kind, 0, ort.OrtMemType.DEFAULT)
    size += 2 * _HUGE_BYTES  # for what lies before the first whole one, and after the last
    config = ort.OrtArenaCfg({"initial_chunk_size_bytes": size}) if huge_pages else None
    # The application may have made one of its own: that is as good.
    with suppress(Exception):
        ort.create_and_register_allocator(info, config)
        if config is not None:
            _ask_for_huge_pages(info, size)


def _ask_for_huge_pages(info: Any, size: int) -> None:
    """Ask for them from the first whole one on; what lies before is kept, and never used."""
    begin = _take(info, 1).data_ptr()  # of all of it: nothing else has been taken yet
    start = -(-begin // _HUGE_BYTES) * _HUGE_BYTES
    if start > begin:
        _kept.append(_take(info, start - begin))
    length = (begin + size - start) // _HUGE_BYTES * _HUGE_BYTES
    if length > 0:
        pointer, count = ctypes.c_void_p(start), ctypes.c_size_t(length)
        ctypes.CDLL(None).madvise(pointer, count, mmap.MADV_HUGEPAGE)


def _take(info: Any, count: int) -> Any:
    return ort.OrtValue.ortvalue_from_shape_and_type([count], np.uint8, memory_info=info)


def warm_up(session: Any, inputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Run a new session on zeros of these shapes and types, so that its next run is no first one.

    What fails on zeros is left as it is.
    """
    feeds = {f"i{place}": np.zeros(*one) for place, one in enumerate(inputs)}
    with suppress(Exception):  # ONNX Runtime raises a dozen types of its own
        for _ in range(_RUNS):
            session.run(None, feeds)
