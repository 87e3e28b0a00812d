"""Flags that cannot be, outputs that would destroy something: one line, and nothing is changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Ask

PLAN = "plan m.onnx --cluster pair.toml --planner cut -o"
KEYS = "worker --name w --authority {0} --certificate {0} --key {0}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"{PLAN} out.json --budget nan", "'--budget': got nan, allowed: 0 to 1000000000"),
        (f"{PLAN} out.json --budget inf", "'--budget': got inf"),
        (f"{PLAN} out.json --in-flight 0", "'--in-flight': got 0, allowed: 1 to 1000"),
        (f"{PLAN} out.json --estimator magic", "'magic' is unknown: known are table, linear"),
        (f"{PLAN} out.json --estimator=", "'' is unknown: known are table, linear"),
        (f"{PLAN} out.json --axis rows", "--axis is for --planner best"),
        (f"{PLAN} out.json --insecure", "--insecure needs --real"),
        (f"{PLAN} out.json --profile moon=p.json", "--profile moon=… is of no device"),
        (f"{PLAN} out.json --profile a=", "--profile 'a=' is not understood"),
        (f"{PLAN} out.json --profile =p.json", "--profile '=p.json' is not understood"),
        ("check p.json --cases 0", "'--cases': got 0, allowed: 1 to 1000000"),
        ("check p.json --input x=", "Input 'x' needs a file"),
        ("simulate p.json --requests 99999999", "'--requests': got 99999999, allowed: 1 to"),
        ("simulate p.json --threshold 0.5", "--threshold needs --adapt"),
        ("simulate p.json --search-time 1", "--search-time needs --adapt"),
        ("simulate p.json --adapt --requests 5", "--requests does not go with --adapt"),
        ("simulate p.json --adapt --trace t.json", "--trace does not go with --adapt"),
        ("simulate p.json --adapt --interval 1e-12", "requests, allowed: 1000000"),
        ("run p.json --hold 1", "--hold needs --adapt"),
        ("run p.json --budget 1", "--budget needs --adapt or --recover"),
        ("run p.json --warm-up -1", "'--warm-up': got -1, allowed: 0 to"),
        ("zoo squeezenet -o z.onnx --batch 0", "'--batch': got 0, allowed: 1 to"),
        ("demo --plates 9", "'--plates': got 9, allowed: 1 to 4"),
        ("profile m.onnx -o q.json --repeats 0", "'--repeats': got 0, allowed: 1 to"),
        ("profile m.onnx -o q.toml --cluster pair.toml --threads 2", "--threads does not go with"),
        ("profile m.onnx -o pair.toml --cluster pair.toml", "pair.toml"),
        ("load split m.onnx -o b --ends 2 --cold", "--cold does not go with --ends"),
        ("load split m.onnx -o b --children 2 --method best", "--method does not go with"),
        ("load personalise b --samples s.npz --threads 99999", "got 99999, allowed: 1 to 256"),
        ("load personalise b --samples s.npz --rate 1e38", "got 1e+38, allowed: 1e-09 to 100"),
        ("compare m.onnx --cluster pair.toml --planners ,", "--planners ',' names none"),
        ("compare m.onnx --cluster pair.toml --requests 3", "--requests needs --run"),
        ("compare m.onnx --cluster pair.toml --requests -3", "'--requests': got -3, allowed: 1"),
        ("reproduce distredge --models nope", "'nope' is not in the zoo"),
        ("reproduce distredge -o m.onnx", "Folder 'm.onnx' cannot be made"),
        ("reproduce distredge --budget -1", "'--budget': got -1"),
        ("demo --report m.onnx", "Folder 'm.onnx' cannot be made"),
        ("worker --name w --plans 0", "'--plans': got 0, allowed: 1 to 1024"),
        ("worker --name w --lanes 0", "'--lanes': got 0, allowed: 1 to 4096"),
        ("worker --name w --calls 0", "'--calls': got 0, allowed: 1 to 4096"),
        ("worker --name w --senders 0", "'--senders': got 0, allowed: 1 to 4096"),
        ("worker --name w --inbound 5", "--inbound: '5'"),
        (KEYS.format("pipe"), "--authority 'pipe' cannot be used: it is no regular file"),
        (KEYS.format("keys"), "'keys' cannot be used: Is a directory"),
    ],
)
def test_flags_that_cannot_be(ask: Ask, folder: Path, words: str, told: str) -> None:
    """The line names the flag, what was given and what is allowed."""
    os.mkfifo(folder / "pipe")
    (folder / "keys").mkdir()
    before = {path.name for path in folder.rglob("*")}
    answer = ask(*words.split())
    assert answer.code == 2
    assert told in answer.message
    assert {path.name for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"{PLAN} m.onnx", "'m.onnx' is an input"),
        (f"{PLAN} ./pair.toml", "'pair.toml' is an input"),
        (f"{PLAN} link.onnx", "'link.onnx' is an input"),
        (f"{PLAN} .", "'.' cannot be written: it is a folder"),
        (f"{PLAN} /proc/p.json", "'/proc/p.json' cannot be written"),
        ("profile m.onnx -o m.onnx", "'m.onnx' is an input"),
        ("profile m.onnx -o .", "'.' cannot be written: it is a folder"),
        ("compare m.onnx --cluster pair.toml --planners single -o m.onnx", "'m.onnx' is an input"),
        ("compare m.onnx --cluster pair.toml --planners single -o .", "it is a folder"),
        ("compare m.onnx --cluster pair.toml --planners single -o /proc/c.png", "/proc/c.png"),
        ("simulate p.json --trace p.json", "'p.json' is an input"),
        ("simulate p.json --trace m.onnx", "'m.onnx' is an input"),
        ("simulate p.json --trace pair.toml", "'pair.toml' is an input"),
        ("simulate p.json --trace .", "it is a folder"),
        ("simulate p.json --trace /proc/t.json", "/proc/t.json"),
        ("run p.json -o m.onnx", "Folder 'm.onnx' cannot be made: 'm.onnx' is a file"),
        ("run p.json --report m.onnx/r", "'m.onnx/r' cannot be made: 'm.onnx' is a file"),
        ("zoo squeezenet --size 32 -o .", "it is a folder"),
        ("lab --example .", "it is a folder"),
        ("lab pair.toml -o pair.toml", "'pair.toml' is an input"),
    ],
)
def test_outputs_that_would_destroy_something(
    ask: Ask, folder: Path, words: str, told: str
) -> None:
    """No output takes the place of an input or a folder, and all is as it was."""
    (folder / "link.onnx").symlink_to("m.onnx")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = ask(*words.split())
    assert answer.code == 2
    assert told in answer.message
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        "zoo squeezenet --size 32 -o no/where",
        "lab --example no/where",
        f"{PLAN} no/where",
        f"{PLAN} no/where --want 5/s",
        "profile m.onnx -o no/where",
        "profile m.onnx --cluster pair.toml -o no/where",
        "compare m.onnx --cluster pair.toml --planners single -o no/where",
        "simulate p.json --trace no/where",
        "run p.json -o no/where",
        "run p.json --report no/where",
        "lab pair.toml -o no/where",
        "export p.json -o no/where",
        "load split m.onnx --children 1 -o no/where",
        "load profile m.onnx -o no/where",
        "demo --report no/where",
        "reproduce distredge -o no/where",
        "reproduce distredge --cache no/where",
    ],
)
def test_outputs_make_no_tree(ask: Ask, folder: Path, words: str) -> None:
    """A folder that is missing is named, and nothing is done: the path may have a slip."""
    before = {path.name for path in folder.rglob("*")}
    answer = ask(*words.split())
    assert answer.code == 2
    assert "'no/where' cannot be" in answer.message
    assert "there is no folder 'no'" in answer.message
    assert {path.name for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    "words",
    [
        "plan gone.onnx --cluster pair.toml -o /proc/o",
        "plan gone.onnx --cluster pair.toml --want 5/s -o /proc/o",
        "plan gone.onnx --cluster pair.toml --samples s.npz --pareto /proc/o.png",
        "quantize gone.onnx --samples s.npz --errors /proc/o",
        "quantize gone.onnx --samples s.npz -o /proc/o",
        "profile gone.onnx -o /proc/o",
        "profile gone.onnx --cluster gone.toml -o /proc/o",
        "profile --links --cluster gone.toml -o /proc/o",
        "compare gone.onnx --cluster pair.toml -o /proc/o",
        "simulate p.json --profile gone.json --trace /proc/o",
        "run gone.json -o /proc/o",
        "run gone.json --report /proc/o",
        "run gone.json -o /proc",
        "lab gone.toml -o /proc/o",
        "export gone.json -o /proc/o",
        "load split gone.onnx -o /proc/o",
        "load run gone -o /proc/o",
        "load profile gone.onnx -o /proc/o",
        "demo --plates 4 --report /proc/o",
        "reproduce distredge -o /proc/o",
        "reproduce distredge --cache /proc/o",
        f"{PLAN} {'n' * 250}",
    ],
)
def test_outputs_that_cannot_be_written(ask: Ask, folder: Path, words: str) -> None:
    """They are refused before anything is read or done, so that no work is lost."""
    before = {path.name for path in folder.rglob("*")}
    answer = ask(*words.split())
    assert answer.code == 2
    assert f"'{words.split()[-1]}' cannot be" in answer.message
    assert "No such file" in answer.message or "File name too long" in answer.message
    assert {path.name for path in folder.rglob("*")} == before


def test_a_cache_that_cannot_be_written(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found before anything is measured for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/cache")
    text = (folder / "pair.toml").read_text().replace("raspberry-pi-4", "this-machine")
    (folder / "this.toml").write_text(text)
    answer = ask("plan", "m.onnx", "--cluster", "this.toml")
    assert answer.code == 2
    assert "'/proc/cache" in answer.message


def test_answers_do_not_replace_a_bundle(ask: Ask, folder: Path) -> None:
    """Nor the input that they are of."""
    assert ask("load", "split", "m.onnx", "-o", "b", "--children", "1").code == 0
    np.save(folder / "x.npy", np.zeros((1, 3, 16, 16), np.float32))
    for words in ("-o b/manifest.json", "-o b/tuned/weights.bin", "--input x.npy -o x.npy", "-o ."):
        answer = ask("load", "run", "b", *words.split())
        assert answer.code == 2
        assert "is an input" in answer.message or "is a folder" in answer.message
    assert ask("load", "run", "b", "--input", "x=x.npy", "-o", "y.npz").code == 0


@pytest.mark.parametrize("kind", ["pipe", "array", "nan"])
def test_samples_that_cannot_be(ask: Ask, folder: Path, kind: str) -> None:
    """A pipe does not hang, one array is no archive, and what is no number is named."""
    split = ("load", "split", "m.onnx", "-o", "b", "--children", "1")
    assert ask(*split, "--trainable", "dense", "--no-portable").code == 0
    path, told = folder / "s.npz", {"pipe": "no readable .npz", "array": "no readable .npz"}
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        x = np.full((4, 3, 16, 16), np.nan, np.float32)
        np.savez(path, x=x, y=np.zeros(4, np.int64))
    answer = ask("load", "personalise", "b", "--samples", "s.npz")
    assert answer.code == 2
    assert told.get(kind, "hold NaN, infinite numbers") in answer.message


def test_a_manifest_without_end_is_one_line(ask: Ask, folder: Path) -> None:
    """Brackets in brackets are no reason for a traceback."""
    (folder / "b").mkdir()
    (folder / "b" / "manifest.json").write_text("[" * 300_000)
    answer = ask("load", "show", "b")
    assert answer.code == 2
    assert "is no manifest of a bundle" in answer.message
