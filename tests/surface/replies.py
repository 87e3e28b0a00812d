"""Keys of the JSON replies, as the commands really give them for a small model and two devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from partita.zoo import build_model, write_model

CLUSTER = """
[cluster]
name = "pair"
requester = "a"

[[device]]
name = "a"
kind = "raspberry-pi-4"
memory = "1 GB"
threads = 1

[[device]]
name = "b"
kind = "jetson-nano"
memory = "1 GB"
threads = 1

[[link]]
between = ["*", "*"]
bandwidth = "200 Mbit/s"
latency = "2 ms"
"""

#: Of a command that hangs: whatever else the machine does, none takes so long.
_PATIENCE_S = 900
#: Commands in order: later ones read what earlier ones wrote.
COMMANDS: dict[str, list[str]] = {
    "zoo": ["zoo"],
    "zoo NAME": ["zoo", "mobilenet_v2", "--size", "32", "-o", "z.onnx"],
    "inspect": ["inspect", "m.onnx"],
    "plan": ["plan", "m.onnx", "--cluster", "pair.toml", "--planner", "equal_rows", "-o", "p.json"],
    "whatif": ["whatif", "p.json", "--planner", "single", "--add", "jetson-nano"],
    "simulate": ["simulate", "p.json"],
    "check": ["check", "p.json"],
    "export": ["export", "p.json", "-o", "parts"],
    "quantize": ["quantize", "m.onnx", "--samples", "samples", "--weights", "4"],
    "profile": ["profile", "m.onnx", "--repeats", "1", "-o", "p.profile.json"],
    "run": ["run", "p.json", "--requests", "2", "--check", "-o", "answers", "--report", "report"],
    "doctor": ["doctor"],
    "compare": ["compare", "m.onnx", "--cluster", "pair.toml", "--planners", "single,equal_rows"],
    "reproduce": ["reproduce", "distredge", "--figure", "11", "-o", "charts"],
    "error": ["inspect", "missing.onnx"],
}


def list_keys(value: object, prefix: str = "") -> set[str]:
    """Return the paths of all keys: ``latency_s.p50``, ``devices[].name``."""
    if isinstance(value, dict):
        found = {f"{prefix}{key}" for key in value}
        return found.union(*(list_keys(item, f"{prefix}{key}.") for key, item in value.items()))
    if isinstance(value, list):
        return set().union(*(list_keys(item, f"{prefix.removesuffix('.')}[].") for item in value))
    return set()


def collect_replies() -> dict[str, list[str]]:
    """Run each command with ``--json`` in an empty folder and return the keys of its reply."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(build_model("mobilenet_v2", size=32), Path(folder, "m.onnx"))
        Path(folder, "samples").mkdir()
        np.save(Path(folder, "samples", "zeros.npy"), np.zeros((1, 3, 32, 32), np.float32))
        Path(folder, "pair.toml").write_text(CLUSTER, encoding="utf-8")
        return {name: _ask(words, folder) for name, words in COMMANDS.items()}


def _ask(words: list[str], folder: str) -> list[str]:
    code = "import sys; from partita.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--json"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    try:
        reply = json.loads(done.stdout)
    except json.JSONDecodeError:
        reply = {"error": "no JSON"}
    if "error" in reply and words != COMMANDS["error"]:
        told = f"{reply['error']} ({done.returncode})\n{done.stderr}"
        raise RuntimeError(f"{' '.join(words)}: {told}")
    return sorted(list_keys(reply))
