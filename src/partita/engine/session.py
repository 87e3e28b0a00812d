"""Sessions of ONNX Runtime: the one place where their options are put together."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime as ort

from partita.engine.base import CPU, Blob, size_of
from partita.engine.one_node import one_node_model
from partita.engine.onnx_facts import NO_ROUNDING
from partita.memory import ARENA_BYTES
from partita.regions import Array

#: Microseconds that threads spin for the next operator before they sleep: it is there within that,
#: and the engine's own milliseconds hold up whatever loads, reads from disk or takes over. Tuned on
#: SqueezeNet with two threads on two cores, whose later answers take 5.2 ms with 100 and with the
#: engine's own, and 6.0 without spinning.
SPIN_US = 100
#: Nothing is printed: what goes wrong is raised.
_SILENT = 4
#: How the shared arena grows: from a small block, which the engine never lets go of, by ranges of
#: addresses, each twice the last, from whose free pieces those asked for are cut to size. The
#: engine's other way asks the system for each piece that fits in no free one; these are never
#: joined, so DenseNet-201, whose layers make ever larger tensors, held 31 to 68 MB where it now
#: holds 5 to 10.
_GROWTH = {
    "max_mem": 0,
    "arena_extend_strategy": 0,
    "initial_chunk_size_bytes": 4096,
    "initial_growth_chunk_size_bytes": ARENA_BYTES,
    "max_dead_bytes_per_chunk": 256,
}
_IN_ARENA = "session.use_env_allocators", "1"
_SHRINK = "memory.enable_memory_arena_shrinkage", "cpu:0"
_arena_lock = threading.Lock()


@dataclass(frozen=True)
class SessionConfig:
    """How a session is made.

    Attributes:
        threads: Threads within one operator; 0 for as many as the processor has cores.
        optimise: What the engine makes of the graph: nothing, what suits all processors, or all.
        prepack: Whether weights are prepacked: copied into the layout that this processor's kernels
            read best.
        integer_kernels: Whether pairs of quantising nodes become integer kernels where weights are
            codes, too.
        spin_us: Microseconds that an idle thread spins; 0 for none, None for the engine's own.
        shared_arena: Whether working memory is taken from one arena of the process, not from one of
            the session's own.
        memory_plan: Whether the first run's working memory is planned as one block for later ones.
        keep_memory: Whether a tensor's memory is kept for a later one of its shape, not freed for
            all others in between.
        profile_prefix: What the files of the engine's profiler begin with; None for no profile.
        optimised_path: Where the optimised graph is written; None for nowhere.
        entries: More of the engine's own settings, by their key after ``session.``.
    """

    threads: int = 0
    providers: tuple[str, ...] = (CPU,)
    optimise: Literal["none", "extended", "all"] = "all"
    prepack: bool = True
    integer_kernels: bool = False
    spin_us: int | None = None
    shared_arena: bool = False
    memory_plan: bool = True
    keep_memory: bool = True
    profile_prefix: Path | None = None
    optimised_path: Path | None = None
    entries: Mapping[str, str] = field(default_factory=dict)


def open_session(
    model: bytes | Path,
    config: SessionConfig = SessionConfig(),
    blobs: Mapping[str, Blob] | None = None,
    values: Mapping[str, Array] | None = None,
) -> Any:
    """A session; what the engine raises, of a dozen types of its own, is passed on.

    Args:
        model: A serialised ONNX model, or a file of one or of the engine's own format.
        blobs: Bytes of the files of weights that the model names, by that name; they may be dropped
            after the call.
        values: Initializers that the model says lie apart, by name: they are read where they are,
            and must stay as long as the session.
    """
    options = _make_options(config)
    if isinstance(model, bytes):
        options.add_session_config_entry("session.load_model_format", "ONNX")
    if blobs:
        options.add_external_initializers_from_files_in_memory(
            list(blobs), list(blobs.values()), list(map(size_of, blobs.values()))
        )
    if values:
        given = [ort.OrtValue.ortvalue_from_numpy(array) for array in values.values()]
        options.add_external_initializers(list(values), given)
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, providers=list(config.providers))


def _make_options(config: SessionConfig) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = config.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    options.graph_optimization_level = {
        "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }[config.optimise]
    options.enable_mem_pattern = config.memory_plan
    options.enable_mem_reuse = config.keep_memory
    if config.profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(config.profile_prefix)
    if config.optimised_path is not None:
        options.optimized_model_filepath = str(config.optimised_path)
    entries = {
        "disable_prepacking": str(int(not config.prepack)),
        "disable_quant_qdq": str(int(not config.integer_kernels)),
        **config.entries,
    }
    if config.integer_kernels:
        options.add_session_config_entry(*NO_ROUNDING)
    if config.shared_arena:
        with _arena_lock:
            _make_arena()
        options.add_session_config_entry(*_IN_ARENA)
    if config.spin_us is not None:
        entries["intra_op.allow_spinning"] = str(int(config.spin_us > 0))
        entries["intra_op.spin_duration_us"] = str(config.spin_us)
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", value)
    return options


def shrink_arena() -> None:
    """Let the shared arena, if there is one, go of all blocks in which no session has anything.

    The engine does so at the end of a run that asks for it, and at no other time.
    """
    with _arena_lock:
        if _make_arena.cache_info().currsize:
            _run_in_arena(_SHRINK)


@cache
def _make_arena() -> None:
    """Make the arena that sessions of this process share, once."""
    cpu = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(cpu, ort.OrtArenaCfg(_GROWTH))
    # The small block, after which the engine begins with ranges as it does whenever it has shrunk.
    _run_in_arena(_SHRINK)


def _run_in_arena(*entries: tuple[str, str]) -> None:
    """Run one operator on one number in the shared arena, with settings of the run."""
    options, how = ort.SessionOptions(), ort.RunOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    options.add_session_config_entry(*_IN_ARENA)
    for key, value in entries:
        how.add_run_config_entry(key, value)
    model = one_node_model("Abs", [(1, 1)], (1, 1))
    session = ort.InferenceSession(model, options, providers=[CPU])
    session.run(None, {"i0": np.zeros((1, 1), np.float32)}, how)
