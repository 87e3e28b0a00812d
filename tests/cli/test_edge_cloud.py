"""An edge and a cloud from samples to a run on the emulated lab, and apart from Partita."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from partita.plan import load_plan
from tests.cli.conftest import Ask
from tests.surface.replies import CLUSTER

RUNNER = Path(__file__).parents[1] / "compile" / "run_parts.py"


@pytest.fixture
def samples(folder: Path) -> str:
    """Return the name of a folder with pictures of bytes."""
    rng = np.random.default_rng(0)
    (folder / "s").mkdir()
    for number in range(3):
        array = rng.integers(0, 256, (1, 3, 16, 16)).astype(np.float32) / 255
        np.save(folder / "s" / f"{number}.npy", array)
    return "s"


def test_a_cut_network_runs_on_the_lab_and_without_partita(
    ask: Ask, folder: Path, samples: str
) -> None:
    """As many bytes travel as predicted; answers are the whole network's, also of two files."""
    (folder / "thin.toml").write_text(CLUSTER.replace("200 Mbit/s", "4 Mbit/s"))
    ask("quantize", "m.onnx", "--samples", samples, "--errors", "e.json", "--weights", "4")
    words = ("plan", "m.onnx", "--cluster", "thin.toml", "--planner", "neurosurgeon")
    asked = (
        *words,
        "--bits",
        "e.json",
        "--keep-on",
        "a=x",
        "--keep-on",
        "b=f",
        "-o",
        "cut.json",
        "--json",
    )
    planned = ask(*asked, "--json")
    assert planned.code == 0, planned.err
    devices = [stage["devices"] for stage in planned.reply["stages"]]
    assert devices == [["a"], ["b"]]
    ran = ask("run", "cut.json", "--input", samples, "--check", "-o", "answers", "--json")
    assert (ran.code, ran.reply["passed"]) == (0, True)
    measured, predicted = (
        {(link["from"], link["to"]): link["bytes"] for link in reply["links"]}
        for reply in (ran.reply, ran.reply["predicted"])
    )
    assert measured["a", "b"] == predicted["a", "b"] > 0
    assert ask("export", "cut.json", "-o", "parts").code == 0
    assert {path.name for path in (folder / "parts").glob("?.onnx")} == {"a.onnx", "b.onnx"}
    np.savez(folder / "given.npz", x=np.load(folder / "s" / "0.npy"))
    command = [sys.executable, "-I", str(RUNNER), "parts", "given.npz", "made.npz"]
    subprocess.run(command, check=True, timeout=60)
    answer = np.load(sorted((folder / "answers").glob("*.npz"))[0])
    np.testing.assert_allclose(np.load(folder / "made.npz")["y"], answer["y"], atol=1e-5)
    assert load_plan(folder / "cut.json").bits
