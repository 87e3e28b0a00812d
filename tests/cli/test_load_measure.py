"""Blocks measured from the command line, bundles for several kinds of device, and switching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.loading.bundle.manifest import processor_signature
from tests.cli.conftest import Ask

QUICK = ("--repeats", "1", "--most", "3")


@pytest.fixture
def measured(ask: Ask, folder: Path) -> Path:
    """Return the folder with profiles of two kinds of device."""
    for name in ("pi", "nano"):
        words = ("-o", f"{name}.json", "--device", name, *QUICK)
        assert ask("load", "profile", "m.onnx", *words).code == 0
    return folder


def test_blocks_are_measured_and_shown(ask: Ask, folder: Path) -> None:
    """Each block with what loading and running it takes, and the sums."""
    shown = ask("load", "profile", "m.onnx", "-o", "p2.json", *QUICK).out
    for text in ("Blocks of m", "session", "prepack", "cold", "all", "One more child adds"):
        assert text in shown
    reply = ask("load", "profile", "m.onnx", "-o", "p2.json", *QUICK, "--json").reply
    assert reply["device"] == "this-machine"
    assert len(reply["blocks"]) == 3


def test_one_bundle_for_several_kinds_of_device(ask: Ask, measured: Path) -> None:
    """Each has a variant; a device takes the one that was measured on a processor like its own."""
    other = json.loads((measured / "nano.json").read_text())
    other["processor"] = "z80"
    (measured / "nano.json").write_text(json.dumps(other))
    words = ("--blocks", "nano.json", "--blocks", "pi.json", "--json")
    reply = ask("load", "split", "m.onnx", "-o", "b", *words).reply
    found = {one["name"]: one["processor"] for one in reply["variants"]}
    assert found == {"nano": "", "pi": processor_signature(), "portable": ""}
    assert ask("load", "run", "b", "--requests", "1", "--json").reply["variant"] == "pi"
    chosen = ("--variant", "nano", "--requests", "1", "--json")
    assert ask("load", "run", "b", *chosen).reply["variant"] == "nano"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("split m.onnx -o b --blocks pi.json --blocks pi.json", "'pi', whose name is taken"),
        ("split other.onnx -o b --blocks pi.json", "is of model"),
        ("split m.onnx -o b --blocks old.json", "is of engine onnxruntime 0.1"),
        ("split m.onnx -o b --blocks no.json", "cannot be read"),
        ("split m.onnx -o b --blocks m.onnx", "is none"),
        ("split m.onnx -o b --blocks pi.json --children 2", "--blocks does not go with --children"),
        ("split m.onnx -o b --blocks pi.json --threads 2", "--threads does not go with --blocks"),
        ("profile m.onnx -o m.onnx", "is an input"),
        ("profile m.onnx -o q.json --device a/b", "'a/b' is no name"),
        ("profile m.onnx -o q.json --trainable moon", "'moon' is unknown"),
        ("switch no b", "has no readable manifest.json"),
        ("switch no b --repeats 0", "got 0, allowed: 1 to 1000"),
    ],
)
def test_bad_input_is_one_line(ask: Ask, measured: Path, words: str, told: str) -> None:
    """Each says what is wrong; nothing is written."""
    ask("zoo", "squeezenet", "--size", "32", "-o", "other.onnx")
    old = json.loads((measured / "pi.json").read_text())
    old["engine"] = "onnxruntime 0.1"
    (measured / "old.json").write_text(json.dumps(old))
    answer = ask("load", *words.split())
    assert answer.code == 2
    assert told in answer.message
    assert not (measured / "b").exists()
    assert not (measured / "q.json").exists()


def test_switching_is_measured(ask: Ask, folder: Path) -> None:
    """From one bundle to another and back."""
    for name in ("a", "b"):
        ask("load", "split", "m.onnx", "-o", name, "--children", "1", "--no-portable")
    reply = ask("load", "switch", "a", "b", "--repeats", "2", "--json").reply
    assert reply["count"] == 2
    assert 0 < reply["there_s"] < 5
    assert 0 < reply["back_s"] < 5
