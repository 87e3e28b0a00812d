"""An exported plan is run by its manifest alone, by programs that are not Partita."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from partita.cluster import Cluster
from partita.compile import compile_plan, planned_graph
from partita.compile.export import export_plan
from partita.exactness.interpret import run_program
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.quantisation import LayerBits, choose_bits, collect_ranges
from tests.quantisation.networks import draw_samples, small_graph

CLUSTER = Cluster.of(["camera", "cloud"])
RUNNER = Path(__file__).with_name("run_parts.py")


def cut_plan(
    graph: Graph, bits: dict[str, LayerBits], at: int, *, integer: bool = False, wire: str = ""
) -> Plan:
    """Return a plan whose first layers are the camera's, the others the cloud's."""
    empty = (Identity("small", ""), Identity("c", CLUSTER.hash), ())
    plan = Plan(*empty, "by hand", bits=bits, integer_kernels=integer)
    planned = planned_graph(graph, plan)
    names = [layer.name for layer in planned.layers]
    parts: Sequence[tuple[str, list[str]]] = (("camera", names[:at]), ("cloud", names[at:]))
    stages = tuple(
        Stage(device, tuple(layers), "none", (Shard(device),)) for device, layers in parts
    )
    crossing = planned.layers[at - 1].outputs[0]
    return Plan(
        Identity("small", planned.hash),
        plan.cluster,
        stages,
        "by hand",
        bits=bits,
        integer_kernels=integer,
        wires={crossing: wire} if wire else {},
    )


def run_apart(folder: Path, feeds: dict[str, np.ndarray], tmp_path: Path) -> dict[str, np.ndarray]:
    """Return what the files in a folder answer in a process that cannot import Partita."""
    given, made = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **feeds)
    words = [sys.executable, "-I", RUNNER, folder, given, made]
    subprocess.run([str(word) for word in words], check=True, timeout=60)
    return dict(np.load(made))


@pytest.mark.parametrize(
    ("weights", "activations", "integer", "wire"),
    [
        (2, 4, False, ""),
        (3, 3, False, ""),
        (6, 6, False, ""),
        (8, 8, False, ""),
        (4, 8, True, ""),
        (0, 2, False, "zlib@0.5"),
        (0, 0, False, "uint4"),
        (0, 0, False, "float16"),
    ],
)
def test_two_parts_run_without_partita(
    tmp_path: Path, weights: int, activations: int, integer: bool, wire: str
) -> None:
    """Edge and cloud as two files give the plan's answer, packed between them as it says."""
    graph = small_graph()
    feeds = draw_samples(1)[0]
    ranges = collect_ranges(graph, draw_samples())
    bits = choose_bits(graph, ranges, weights or None, activations or None)
    plan = cut_plan(graph, bits, 3, integer=integer, wire=wire)
    folder = tmp_path / "parts"
    written = export_plan(graph, plan, CLUSTER, folder)
    assert [path.name for path in written] == ["camera.onnx", "cloud.onnx"]
    expected, _ = run_program(compile_plan(graph, plan, CLUSTER), feeds)
    found = run_apart(folder, feeds, tmp_path)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=0, atol=1e-6)
    manifest = json.loads((folder / "manifest.json").read_text())
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in written]
    assert [each["sha256"] for each in manifest["fragments"]] == hashes
    (sent,) = [s for s in manifest["devices"]["camera"] if s["do"] == "send"]
    assert sent["wire"] == "+".join(filter(None, (activations and f"codes{activations}", wire)))


def test_packed_weights_stay_packed(tmp_path: Path) -> None:
    """A file is as much smaller as its weights have fewer bits; unpacked they are the same."""
    graph = small_graph()
    graph.constants["w2"] = np.random.default_rng(2).standard_normal((8, 8, 3, 3), np.float32)
    ranges, sizes = collect_ranges(graph, draw_samples()), {}
    for width in (8, 6, 4, 3, 2):
        plan = cut_plan(graph, choose_bits(graph, ranges, width, 8), 4)
        written = export_plan(graph, plan, CLUSTER, tmp_path / str(width))
        sizes[width] = written[0].stat().st_size
    per_bit = 8 * 8 * 9 // 8
    assert sizes[8] - sizes[4] == pytest.approx(4 * per_bit, abs=1200)
    # Lengths of fields take a byte more here and there.
    assert sizes[4] - sizes[2] == pytest.approx(2 * per_bit, abs=8)
    assert sizes[6] - sizes[3] == pytest.approx(3 * per_bit, abs=8)
