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


def test_the_input_is_sent_as_a_picture(ask: Ask, folder: Path, samples: str) -> None:
    """Samples say what is expected, the plan keeps it, and the run sends about as much."""
    (folder / "thin.toml").write_text(CLUSTER.replace("200 Mbit/s", "1 Mbit/s"))
    smooth = np.zeros((1, 3, 16, 16), np.float32) + np.linspace(0, 1, 16, dtype=np.float32)
    for path in sorted((folder / "s").iterdir()):
        np.save(path, smooth)
    words = ("plan", "m.onnx", "--cluster", "thin.toml", "--planner", "cloud_only")
    told = ask(*words, "--compress", "jpeg60", "--samples", samples, "-o", "j.json")
    assert told.code == 0, told.err
    assert "Compressed:  x to " in told.out
    assert "Lossy:       x as jpeg60; measured output error" in told.out
    wires = load_plan(folder / "j.json").wires
    assert list(wires) == ["x"]
    assert wires["x"].startswith("jpeg60@0.")
    ran = ask("run", "j.json", "--input", samples, "--json")
    sent, expected = (
        next(link["bytes"] for link in reply["links"] if link["to"] == "b")
        for reply in (ran.reply, ran.reply["predicted"])
    )
    assert 0.98 < sent / expected < 1.02
    assert sent < 3 * 16 * 16 * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--compress", "zlib"), "'zlib' needs samples, which say how long its payloads are"),
        (("--wire", "x=jpeg90"), "allowed formats: raw, float16, uint8"),
        (
            ("--wire", "y=jpeg80"),
            "as jpeg80, allowed: tensors of four axes and more (requests, channels, height, width)",
        ),
        (("--compress", "zlib", "--samples", "nowhere"), "'nowhere' does not exist"),
    ],
)
def test_formats_that_cannot_be(ask: Ask, words: tuple[str, ...], message: str) -> None:
    """One line says which, and what is allowed or to be given."""
    answer = ask("plan", "m.onnx", "--cluster", "pair.toml", "--planner", "cloud_only", *words)
    assert answer.code == 2
    assert message in answer.message
