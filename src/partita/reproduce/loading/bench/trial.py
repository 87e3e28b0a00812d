"""One trial, in a process of its own: ``python -P trial.py ORDER`` prints one line of JSON.

ORDER is a JSON object: ``engine``, ``path``, ``settings``, ``threads``, ``feeds`` and ``answer``
(files of arrays), ``runs`` and ``later_s`` (later answers are at least as many and take at least
as long), and ``began_s``, the monotonic clock's time before this process was started. What an
engine needs is imported in that engine's trial alone: none pays for another one.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Order = dict[str, Any]
_KIB = 1024


def prepare_ort(order: Order) -> Callable[[], Any]:
    """What loads the whole model into one session of ONNX Runtime."""
    open_one = _opener(order)
    return lambda: open_one(Path(order["path"]))


def prepare_children(order: Order) -> Callable[[], Any]:
    """What loads child models, each a file with its weights inside."""
    from partita.reproduce.loading.bench.chain import Chain

    settings, open_one = order["settings"], _opener(order)
    files = [Path(order["path"]) / f"child-{place}.onnx" for place in range(settings["children"])]
    return lambda: Chain(files, open_one, in_turn=settings["in_turn"])


def _opener(order: Order) -> Callable[[Path], Any]:
    """What makes a session of a file, as its users do: no rival imports Partita's own."""
    import onnxruntime as ort

    settings = order["settings"]
    options = ort.SessionOptions()
    options.intra_op_num_threads = order["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not settings.get("optimise", True):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not settings.get("prepack", True):
        options.add_session_config_entry("session.disable_prepacking", "1")
    # Sessions that spin hold up the others.
    spin_us = 0 if settings.get("children", 1) > 1 else settings.get("spin_us")
    if spin_us == 0:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    elif spin_us is not None:
        options.add_session_config_entry("session.intra_op.spin_duration_us", str(spin_us))
    providers = ["CPUExecutionProvider"]
    return lambda path: ort.InferenceSession(str(path), options, providers=providers)


def prepare_bundle(order: Order) -> Callable[[], Any]:
    """What opens a bundle."""
    from partita.loading import load_bundle

    settings = {**order["settings"], "threads": order["threads"]}
    return lambda: load_bundle(order["path"], **settings)


def prepare_torch(order: Order) -> Callable[[], Any]:
    """What loads a network's checkpoints into an eager module."""
    from partita.reproduce.loading.bench.eager import load_network, set_threads

    if order["settings"].get("safetensors"):
        import safetensors.torch  # noqa: F401
    set_threads(order["threads"])
    return lambda: load_network(Path(order["path"]), **order["settings"])


ENGINES = {
    "ort": prepare_ort,
    "children": prepare_children,
    "bundle": prepare_bundle,
    "torch": prepare_torch,
}


def run(order: Order) -> dict[str, Any]:
    """What the trial took; the first answer is written to a file."""
    with np.load(order["feeds"]) as file:
        feeds = dict(file)
    load = ENGINES[order["engine"]](order)
    called_s = time.monotonic()
    session = load()
    returned_s = time.monotonic()
    is_loaded = getattr(session, "is_loaded", True)
    answer = session.run(None, feeds)
    answered_s = time.monotonic()
    marks = sorted(getattr(session, "marks", ()), key=lambda mark: mark.child)
    loads = [mark for mark in marks if mark.what == "load"]
    loaded_s = returned_s - called_s
    if not is_loaded:
        loaded_s += max(mark.end_s for mark in loads)
    if hasattr(session, "wait"):
        session.wait()
    later: list[float] = []
    while len(later) < order["runs"] or sum(later) < order["later_s"]:
        start_s = time.monotonic()
        session.run(None, feeds)
        later.append(time.monotonic() - start_s)
    np.savez(order["answer"], *answer)
    return {
        "start_s": called_s - order["began_s"],
        "loaded_s": loaded_s,
        "answered_s": answered_s - called_s,
        "steady_s": statistics.median(later),
        "peak_bytes": peak_bytes(),
        "parts_s": getattr(session, "parts_s", [mark.end_s - mark.start_s for mark in loads]),
    }


def peak_bytes() -> int:
    """The most memory that this process held.

    The kernel's figure for the program itself: ``ru_maxrss`` counts the parent's, too, where that
    was larger when it started this process.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * _KIB for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
