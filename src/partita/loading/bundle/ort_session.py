"""Making the engine's session of a child: nothing is optimised or rearranged unless asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime as ort

from partita.engine.base import BUSY_US, CPU

_SILENT = 4


def open_child(path: Path, threads: int, *, prepack: bool = False) -> Any:
    """Return the session of a child; whatever the engine raises is passed on.

    Args:
        path: The child's ONNX file, its weights beside it.
        threads: Threads within one operator.
        prepack: Whether weights are rearranged.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Else the second request would have new memory, of the sizes that the first one found.
    options.enable_mem_pattern = False
    entries = {
        "disable_prepacking": int(not prepack),
        "intra_op.allow_spinning": 1,
        "intra_op.spin_duration_us": BUSY_US,
    }
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", str(value))
    return ort.InferenceSession(str(path), options, providers=[CPU])
