"""A plan with a fallback: what is said of it, kept in the file, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.cli.conftest import Ask
from tests.models import make_model

PLAN = ("plan", "m.onnx", "--cluster", "pair.toml", "--planner", "cloud_only", "--fallback")


def test_a_plan_tells_its_fallback(ask: Ask, folder: Path) -> None:
    """As lines and as JSON; the file has it, other verbs take it."""
    reply = ask(*PLAN, "-o", "f.json", "--json").reply
    told = reply["fallback"]
    assert told["same_answers"]
    assert told["accuracy"] is None
    assert told["latency_s"] > 0
    written = json.loads((folder / "f.json").read_text())
    devices = {s["device"] for stage in written["fallback"]["stages"] for s in stage["shards"]}
    assert devices == {told["device"]}
    assert f"device '{told['device']}' alone, the same answers" in ask(*PLAN).out
    assert ask("check", "f.json", "--json").reply["passed"]
    assert ask("simulate", "f.json", "--json").code == 0


def test_a_fallback_in_bytes_of_a_plan_in_bits(ask: Ask, folder: Path) -> None:
    """Where the plan's own network has no room beside it; each is priced as its own network."""
    (folder / "s").mkdir()
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((256, 1024), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    onnx.save(make_model([node], {"x": [1, 256]}, ["y"], {"w": weights}), folder / "m.onnx")
    for number in range(9):
        np.save(folder / "s" / f"{number}.npy", rng.random((1, 256), np.float32))
    samples = ("--samples", "s", "--judge", "signal", "--set", "cloud_only.input_bits=8")
    held = ask(*PLAN, *samples, "--json").reply["fallback"]["memory_bytes"]
    text = (folder / "pair.toml").read_text()
    (folder / "pair.toml").write_text(text.replace("1 GB", f"{(held - 1) / 1000} kB", 1))
    answer = ask(*PLAN, *samples, "--json")
    assert answer.code == 0, answer.out
    told = answer.reply["fallback"]
    assert not told["same_answers"]
    assert 0.9 < told["accuracy"] < 1


def test_a_fallback_that_was_edited_wrongly_is_one_line(ask: Ask, folder: Path) -> None:
    """Its stages are the other device's."""
    ask(*PLAN, "-o", "f.json", "--json")
    written = json.loads((folder / "f.json").read_text())
    written["fallback"]["stages"] = written["stages"]
    (folder / "f.json").write_text(json.dumps(written))
    answer = ask("check", "f.json")
    assert answer.code == 2
    assert "fallback: it uses device" in answer.message


def test_a_requester_without_room_is_one_line(ask: Ask, folder: Path) -> None:
    """Nothing is written."""
    text = (folder / "pair.toml").read_text()
    (folder / "pair.toml").write_text(text.replace("1 GB", "3 MB", 1))
    answer = ask(*PLAN, "-o", "f.json")
    assert answer.code == 3
    assert "fallback" in answer.message
    assert not (folder / "f.json").exists()
