"""Making the engine's session of a child: nothing is optimised or rearranged unless asked."""

from __future__ import annotations

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
_shared = threading.Lock()


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
        shares_memory: Whether it takes its working memory from that of this process's other
            sessions that do: one that replaces another needs no more.
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
    if shares_memory:
        _register_memory()
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", str(int(value)))
    return ort.InferenceSession(str(path), options, providers=[CPU])


def _register_memory() -> None:
    """Make the memory that sessions may share; the engine keeps it until the process ends."""
    if _shared.acquire(blocking=False):  # once, and never released
        kind = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        info = ort.OrtMemoryInfo("Cpu", kind, 0, ort.OrtMemType.DEFAULT)
        with suppress(Exception):  # the application has made one of its own: that is as good
            ort.create_and_register_allocator(info, None)


def warm_up(session: Any, inputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Run a new session on zeros of these shapes and types, so that its next run is no first one.

    What fails on zeros is left as it is.
    """
    feeds = {f"i{place}": np.zeros(*one) for place, one in enumerate(inputs)}
    with suppress(Exception):  # ONNX Runtime raises a dozen types of its own
        for _ in range(_RUNS):
            session.run(None, feeds)
