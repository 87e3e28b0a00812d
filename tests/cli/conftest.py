"""A folder with a tiny model, two devices and a plan for them."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from partita.cli import main
from tests.models import make_model
from tests.surface.replies import CLUSTER


def tiny_model(*, free: bool = False) -> onnx.ModelProto:
    """Return two convolutions, a mean over space and a dense layer, on an image of 16 x 16."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3"], ["y"], name="dense"),
    ]
    consts = {
        "w1": rng.standard_normal((8, 3, 3, 3), np.float32),
        "w2": rng.standard_normal((8, 8, 3, 3), np.float32),
        "w3": rng.standard_normal((8, 5), np.float32),
    }
    shape: list[int | str] = [1, 3, "height", "width"] if free else [1, 3, 16, 16]
    return make_model(nodes, {"x": shape}, ["y"], consts)


@dataclass(frozen=True)
class Answer:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def reply(self) -> Any:
        """The JSON object on stdout."""
        return json.loads(self.out)

    @property
    def message(self) -> str:
        """The one line of an error; fails when there is more, or a traceback."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("partita: ")
        assert self.out == ""
        return lines[0]


Ask = Callable[..., Answer]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``m.onnx``, ``free.onnx``, ``pair.toml`` and ``p.json``."""
    folder = tmp_path_factory.mktemp("cli")
    onnx.save(tiny_model(), folder / "m.onnx")
    onnx.save(tiny_model(free=True), folder / "free.onnx")
    (folder / "pair.toml").write_text(CLUSTER, encoding="utf-8")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        words = ["plan", "m.onnx", "--cluster", "pair.toml", "--planner", "equal_rows"]
        assert main([*words, "-o", "p.json"]) == 0
    return folder


@pytest.fixture
def folder(
    made: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return a fresh current folder with copies of the same files."""
    for source in made.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return tmp_path


@pytest.fixture
def ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return what runs a command in the folder, in this process."""

    def run(*words: str) -> Answer:
        capsys.readouterr()
        code = main(list(words))
        told = capsys.readouterr()
        return Answer(code, told.out, told.err)

    return run
