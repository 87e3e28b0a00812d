"""A model of more than 2 GB: read, divided, checked against itself and its file.

    python -m benchmarks.large_model [--layers N] [--axis none]

Writes a network of dense layers of 64 MiB each with its weights in a file beside it, divides it
over two devices and does what ``partita check`` and ``partita run --check`` do. Prints the largest
memory of the process as a multiple of the weights; the peer is ONNX Runtime that runs the file
alone. Weights cut by ``--axis output_channels`` are copies, which count once more.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from partita.graph.stored import refer_to
from partita.plan import SplitAxis

WIDTH, TOKENS = 4096, 4


def write_model(folder: Path, layers: int) -> Path:
    """Write the network, its weights drawn from a seed; the path of the model."""
    rng, weights = np.random.default_rng(0), []
    with (folder / "weights.bin").open("wb") as file:
        for number in range(layers):
            array = rng.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
            tensor = refer_to(f"w{number}", array, "weights.bin")
            tensor.external_data.add(key="offset", value=str(file.tell()))
            file.write(array.tobytes())
            weights.append(tensor)
    nodes = []
    for k in range(layers):
        nodes.append(helper.make_node("MatMul", [f"h{k}", f"w{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Tanh", [f"m{k}"], [f"h{k + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, TOKENS, WIDTH])
        for name in ("h0", f"h{layers}")
    ]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = folder / "large.onnx"
    onnx.save(model, path)
    return path


def check(path: Path, axis: SplitAxis) -> dict[str, float]:
    """Read, divide and compare; what was seen."""
    from benchmarks.uniform import UniformOptions, plan_uniform
    from partita.cluster import Cluster
    from partita.compile import compile_plan
    from partita.exactness.compare import check_exactness, compare_answers, compare_with_file
    from partita.exactness.interpret import run_program
    from partita.graph import load_graph

    start_s = time.monotonic()
    graph, cluster = load_graph(path), Cluster.of(["a", "b"])
    options = UniformOptions(axis, (1, 2), volume=4)
    plan = plan_uniform(graph, cluster, options)
    compiled = compile_plan(graph, plan, cluster)
    feeds = {"h0": np.random.default_rng(1).standard_normal((1, TOKENS, WIDTH), np.float32)}
    probe = partial(compile_plan, graph, plan, cluster)
    differences = check_exactness(graph, compiled, [feeds], None, probe)
    answers, _ = run_program(compiled, feeds)
    del compiled  # a run's check has none
    return {
        "relative": max(difference.relative for difference in differences),
        "file": compare_with_file(graph, path, [feeds]).relative,
        "answer": compare_answers(graph, [feeds], [answers]).relative,
        "weights": graph.weight_bytes,
        "peak": _peak_bytes(),
        "seconds": time.monotonic() - start_s,
    }


def run_alone(path: Path) -> dict[str, float]:
    """What ONNX Runtime takes for one run of the file."""
    import onnxruntime as ort

    start_s = time.monotonic()
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    session.run(None, {"h0": np.zeros((1, TOKENS, WIDTH), np.float32)})
    return {"peak": _peak_bytes(), "seconds": time.monotonic() - start_s}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _ask(what: list[str], path: Path) -> dict[str, float]:
    """The answer of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large_model", *what, str(path)]
    reply: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
    return reply


def main() -> int:
    """Measure, and say what was seen; 1 where the networks differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--axis", default="none", choices=("none", "output_channels"))
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.check or flags.alone:
        print(json.dumps(check(flags.check, flags.axis) if flags.check else run_alone(flags.alone)))
        return 0
    with tempfile.TemporaryDirectory(prefix="partita-large-") as folder:
        path = write_model(Path(folder), flags.layers)
        ours, theirs = _ask(["--axis", flags.axis, "--check"], path), _ask(["--alone"], path)
    weights = ours["weights"]
    print(f"weights {weights / 1e9:.2f} GB")
    for name, seen in (("check and run --check", ours), ("ONNX Runtime alone", theirs)):
        times = seen["peak"] / weights
        print(f"{name}: {seen['peak'] / 1e9:.2f} GB, {times:.2f} x, {seen['seconds']:.1f} s")
    worst = max(ours[name] for name in ("relative", "file", "answer"))
    print(f"largest difference {worst:.1e}")
    return int(worst > 1e-5)


if __name__ == "__main__":
    sys.exit(main())
