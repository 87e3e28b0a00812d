"""Bad input: one line, the right exit code, no traceback, and nothing half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.conftest import Ask, tiny_model
from tests.models import make_model

PLAN = ("plan", "m.onnx", "--cluster", "pair.toml", "--planner", "cut", "-o", "out.json")
CHECK = ("check", "p.json")
Prepare = Callable[[Path], None]


def _write(name: str, data: bytes | str) -> Prepare:
    raw = data.encode() if isinstance(data, str) else data
    return lambda folder: (folder / name).write_bytes(raw) and None


def _edit(name: str, old: str, new: str) -> Prepare:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return edit


def _edit_plan(change: Callable[[Any], object]) -> Prepare:
    def edit(folder: Path) -> None:
        plan = json.loads((folder / "p.json").read_text())
        change(plan)
        (folder / "p.json").write_text(json.dumps(plan))

    return edit


def _rows(start: int, stop: int) -> Prepare:
    def change(plan: Any) -> None:
        shard = plan["stages"][0]["shards"][0]
        (box,) = shard["boxes"].values()
        box[0][2] = [start, stop]

    return _edit_plan(change)


def _truncate(folder: Path) -> None:
    data = (folder / "m.onnx").read_bytes()
    (folder / "m.onnx").write_bytes(data[: len(data) // 2])


def _lose_weights(folder: Path) -> None:
    model = tiny_model()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    (folder / "w").unlink()


def _foreign(folder: Path) -> None:
    node = helper.make_node("Magic", ["x"], ["y"], domain="my.ops")
    model = make_model([node], {"x": [1, 3, 4, 4]}, ["y"])
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(model, folder / "m.onnx")


def _input(name: str, array: np.ndarray[Any, Any]) -> Prepare:
    return lambda folder: np.save(folder / name, array)


def _nothing(folder: Path) -> None:
    pass


OTHER = ("check", "p.json", "--model", "o.onnx")


def _other_model(folder: Path) -> None:
    model = tiny_model()
    model.graph.node[0].attribute[0].ints[:] = [0, 0, 2, 2]
    onnx.save(model, folder / "o.onnx")


#: What is prepared, what is asked, what the message must name, and the exit code.
CASES: dict[str, tuple[Prepare, tuple[str, ...], tuple[str, ...]]] = {
    "model missing": (_nothing, ("inspect", "no.onnx"), ("no.onnx", "cannot be read")),
    "model truncated": (_truncate, PLAN, ("m.onnx", "not a complete ONNX model")),
    "model empty": (_write("m.onnx", b""), PLAN, ("m.onnx", "0 bytes")),
    "model is text": (_write("m.onnx", "hello\n" * 9), PLAN, ("m.onnx", "not a complete ONNX")),
    "weights missing": (_lose_weights, PLAN, ("file 'w'", "missing")),
    "operator domain": (_foreign, PLAN, ("domain 'my.ops'", "allowed are ai.onnx")),
    "free dimensions": (
        _nothing,
        ("inspect", "free.onnx"),
        ("'x'", "height, width", "--shape x=1x3x224x224"),
    ),
    "shape that does not fit": (
        _nothing,
        ("inspect", "m.onnx", "--shape", "x=1x4x16x16"),
        ("'x'", "1x4x16x16", "1x3x16x16"),
    ),
    "shape of no input": (
        _nothing,
        ("inspect", "free.onnx", "--shape", "q=1x3x16x16"),
        ("'q'", "inputs are x"),
    ),
    "shape not understood": (
        _nothing,
        ("inspect", "free.onnx", "--shape", "x=1,3"),
        ("--shape 'x=1,3'", "NAME=1x3x224x224"),
    ),
    "cluster missing": (
        _nothing,
        ("plan", "m.onnx", "--cluster", "no.toml"),
        ("no.toml", "cannot be read"),
    ),
    "cluster is no TOML": (_write("pair.toml", "[cluster"), PLAN, ("pair.toml", "not TOML")),
    "unit missing": (
        _edit("pair.toml", '"1 GB"', '"1"'),
        PLAN,
        ("pair.toml", "device[0].memory", "no unit", "GB"),
    ),
    "wrong unit": (
        _edit("pair.toml", '"200 Mbit/s"', '"200 ms"'),
        PLAN,
        ("link[0].bandwidth", "Mbit/s"),
    ),
    "link to nowhere": (
        _edit("pair.toml", 'between = ["*", "*"]', 'from = "a"\nto = "moon"'),
        PLAN,
        ("link[0]", "'moon'", "a, b"),
    ),
    "requester unknown": (
        _edit("pair.toml", 'requester = "a"', 'requester = "c"'),
        PLAN,
        ("cluster.requester", "'c'", "a, b"),
    ),
    "kind unknown": (
        _edit("pair.toml", "jetson-nano", "jetson-9000"),
        PLAN,
        ("device[1].kind", "jetson-9000", "jetson-nano"),
    ),
    "planner unknown": (
        _nothing,
        ("plan", "m.onnx", "--cluster", "pair.toml", "--planner", "magic"),
        ("'magic'", "allowed: single"),
    ),
    "objective unknown": (_nothing, (*PLAN, "--objective", "joy"), ("'joy'", "latency")),
    "keeper unknown": (_nothing, (*PLAN, "--keep-on", "moon=x"), ("'moon'", "a, b")),
    "kept tensor unknown": (_nothing, (*PLAN, "--keep-on", "a=q"), ("'q'", "inputs are x")),
    "wire unknown": (_nothing, (*PLAN, "--wire", "x=float8"), ("x=float8", "uint8")),
    "wire of no tensor": (_nothing, (*PLAN, "--wire", "q=uint8"), ("'q'", "inputs are x")),
    "number is text": (_nothing, (*PLAN, "--budget", "long"), ("--budget", "number")),
    "flag unknown": (_nothing, (*PLAN, "--quickly"), ("--quickly", "partita plan --help")),
    "argument missing": (_nothing, ("plan",), ("MODEL", "partita plan --help")),
    "command unknown": (_nothing, ("conquer",), ("'conquer'", "partita --help")),
    **{
        f"output of {words[0]} below a file": (
            _write("file", "x"),
            (*words, "file/out"),
            ("file", "cannot be", "is a file"),
        )
        for words in (
            PLAN[:-1],
            ("export", "p.json", "-o"),
            ("simulate", "p.json", "--trace"),
            ("compare", "m.onnx", "--cluster", "pair.toml", "--planners", "single", "-o"),
            ("zoo", "mobilenet_v2", "--size", "32", "-o"),
            ("profile", "m.onnx", "--repeats", "1", "-o"),
            ("lab", "--example"),
        )
    },
    "plan missing": (_nothing, ("check", "no.json"), ("no.json", "cannot be read")),
    "plan is no JSON": (_write("p.json", "{"), CHECK, ("p.json", "not a plan")),
    "plan lacks a key": (
        _edit_plan(lambda plan: plan.pop("stages")),
        CHECK,
        ("p.json", "missing required field `stages`"),
    ),
    "plan of another schema": (
        _edit_plan(lambda plan: plan.update(schema=99)),
        CHECK,
        ("p.json", "'schema'", "99", "partita plan"),
    ),
    "plan of another type": (
        _edit_plan(lambda plan: plan.update(in_flight="two")),
        CHECK,
        ("p.json", "in_flight"),
    ),
    "plan for another model": (_other_model, OTHER, ("p.json", "it is for model 'm'", "'o'")),
    "plan for another cluster": (
        _edit("pair.toml", "jetson-nano", "jetson-tx2"),
        CHECK,
        ("p.json", "it is for cluster 'pair'"),
    ),
    "rows overlap": (_rows(0, 12), CHECK, ("p.json", "stage", "overlap", "0:12")),
    "rows leave a gap": (_rows(0, 5), CHECK, ("p.json", "5:8", "owned by nobody")),
    "device of a plan unknown": (
        _edit_plan(lambda plan: plan["stages"][0]["shards"][0].update(device="moon")),
        CHECK,
        ("p.json", "'moon'", "allowed: a, b"),
    ),
    "input missing": (_nothing, (*CHECK, "--input", "no.npy"), ("no.npy", "does not exist")),
    "input that is a pipe": (
        lambda folder: os.mkfifo(folder / "i.npy"),
        (*CHECK, "--input", "i.npy"),
        ("i.npy", "no regular file"),
    ),
    "input of another shape": (
        _input("i.npy", np.zeros((1, 3, 8, 8), np.float32)),
        (*CHECK, "--input", "i.npy"),
        ("i.npy", "(1, 3, 8, 8)", "(1, 3, 16, 16)"),
    ),
    "input of another type": (
        _input("i.npy", np.zeros((1, 3, 16, 16))),
        (*CHECK, "--input", "i.npy"),
        ("i.npy", "float64", "float32"),
    ),
    "input damaged": (
        _write("i.npy", "abc"),
        (*CHECK, "--input", "i.npy"),
        ("i.npy", "no readable .npy"),
    ),
    "input empty": (_write("i.npy", ""), (*CHECK, "--input", "i.npy"), ("no readable .npy",)),
    "archive damaged": (_write("i.npz", "abc"), (*CHECK, "--input", "i.npz"), ("i.npz",)),
    "image damaged": (_write("i.png", "abc"), (*CHECK, "--input", "i.png"), ("i.png",)),
    "input of no kind": (_write("i.txt", "a"), (*CHECK, "--input", "i.txt"), ("i.txt", ".npy")),
    "no requests": (_nothing, ("simulate", "p.json", "--requests", "0"), ("--requests",)),
    "zoo model unknown": (_nothing, ("zoo", "lenet", "-o", "out.json"), ("'lenet'", "resnet50")),
    "profile missing": (
        _nothing,
        (*PLAN, "--profile", "a=no.json"),
        ("no.json", "cannot be read"),
    ),
    "export into a full folder": (
        _nothing,
        ("export", "p.json", "-o", "."),
        ("not empty",),
    ),
    "port for a worker wrong": (
        _nothing,
        ("worker", "--name", "w", "--listen", "somewhere"),
        ("somewhere",),
    ),
    **{
        f"worker {' '.join(words)[:40]}": (_nothing, ("worker", "--name", "w", *words), named)
        for words, named in (
            (("--threads", "-1"), ("--threads", "-1", "allowed: 0 to 1024")),
            (("--loaders", "0"), ("--loaders", "allowed: 1 to 64")),
            (("--slow-down", "nan"), ("'--slow-down'", "got nan", "1 to 10000")),
            (("--slow-down", "1e300"), ("'--slow-down'", "got 1e+300", "1 to 10000")),
            (("--slow-down", "0.5"), ("'--slow-down'", "got 0.5", "1 to 10000")),
            (("--quota", "5 B"), ("--quota", "'5 B'", "1 MB")),
            (("--quota", "1e300 GB"), ("--quota", "too large")),
            (("--memory", "0 B"), ("--memory", "'0 B'", "1 MB")),
            (("--provider", "Foo"), ("--provider 'Foo'", "CPUExecutionProvider")),
            (("--store", "/dev/null"), ("--store '/dev/null'", "folder")),
            (("--store", "/proc/foo"), ("--store '/proc/foo'", "folder")),
            (("--name", "a/b"), ("'a/b'", "1 to 64 letters")),
            (("--name", "*"), ("'*'", "1 to 64 letters")),
            (("--name", ""), ("''", "1 to 64 letters")),
            (("--cluster-name", "a b"), ("Cluster name 'a b'", "1 to 64 letters")),
            (("--listen", "foo/127.0.0.1:1"), ("foo/127.0.0.1:1", "tcp, tls, quic")),
            (("--listen", "tls/127.0.0.1:7447"), ("--authority, --certificate and --key",)),
        )
    },
    "seed below zero": (_nothing, (*CHECK, "--seed", "-1"), ("--seed", "-1", "allowed: 0 to")),
    "plan is a device": (_nothing, ("check", "/dev/full"), ("/dev/full", "no regular file")),
    "model path with NUL": (
        _edit_plan(lambda plan: plan["model"].update(path="a\0b")),
        CHECK,
        ("p.json", "model.path", "NUL"),
    ),
    "cluster path over-long": (
        _edit_plan(lambda plan: plan["cluster"].update(path="a" * 1000)),
        CHECK,
        ("aaa", "cannot be read"),
    ),
    "quota without unit": (
        _nothing,
        ("worker", "--name", "w", "--quota", "4"),
        ("--quota", "no unit"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str, ask: Ask, folder: Path) -> None:
    """The line names what is wrong and what is allowed; the exit code is 2; nothing is written."""
    prepare, words, named = CASES[name]
    prepare(folder)
    before = {path.name for path in folder.rglob("*")}
    answer = ask(*words)
    assert answer.code == 2, answer
    for text in named:
        assert text in answer.message
    assert {path.name for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "kind", "subject"),
    [
        (("inspect", "no.onnx"), "model", "no.onnx"),
        (("plan", "m.onnx", "--cluster", "no.toml"), "cluster", "no.toml"),
        (("check", "no.json"), "plan", "no.json"),
        (("check", "p.json", "--input", "no.npy"), "input", "no.npy"),
        (("conquer",), "usage", "command line"),
    ],
)
def test_errors_as_json(words: tuple[str, ...], kind: str, subject: str, ask: Ask) -> None:
    """With ``--json`` an error is one object on stdout with kind, message and subject."""
    answer = ask(*words, "--json")
    assert answer.code == 2
    assert answer.err == ""
    assert answer.reply["error"].keys() == {"kind", "message", "subject"}
    assert (answer.reply["error"]["kind"], answer.reply["error"]["subject"]) == (kind, subject)


def test_no_feasible_plan(ask: Ask, folder: Path) -> None:
    """Exit code 3 where no device has the memory that the weights need."""
    _edit("pair.toml", "1 GB", "1 kB")(folder)
    answer = ask(*PLAN)
    assert answer.code == 3
    assert "memory" in answer.message
    assert not (folder / "out.json").exists()


def test_a_plan_that_sends_where_no_link_is(ask: Ask, folder: Path) -> None:
    """A plan whose cluster file lost a link is for another cluster."""
    _edit("pair.toml", 'between = ["*", "*"]', 'from = "a"\nto = "b"')(folder)
    answer = ask(*CHECK)
    assert answer.code == 2
    assert "it is for cluster" in answer.message


def test_a_plan_of_the_measured_cluster_with_the_unmeasured_one(ask: Ask, folder: Path) -> None:
    """The line names the file that the plan was made with, what differs, and what to do."""
    measured = (folder / "pair.toml").read_text(encoding="utf-8")
    boards = measured.replace('kind = "jetson-nano"', 'address = "tcp/127.0.0.1:7447"')
    (folder / "boards.toml").write_text(boards, encoding="utf-8")
    words = "'p.json': it is for cluster 'pair' of 'pair.toml', not of 'boards.toml': device 'b'"
    assert words in (message := ask(*CHECK, "--cluster", "boards.toml").message)
    assert "was of kind 'jetson-nano', is of kind 'unmeasured'. Give --cluster pair.toml" in message
    (folder / "pair.toml").unlink()
    answer = ask(*CHECK, "--cluster", "boards.toml")
    assert "of 'pair.toml', which is not what 'boards.toml' says now" in answer.message


def test_debug_shows_where(ask: Ask) -> None:
    """``--debug`` lets the failure through with its traceback."""
    with pytest.raises(Exception, match=r"no\.onnx"):
        ask("inspect", "no.onnx", "--debug")


def test_what_nobody_foresaw_is_one_line(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of our own making is one line too, and says how to see more."""
    from partita.cli.actions import inspect

    def fail(*_: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr(inspect, "read_graph", fail)
    answer = ask("inspect", "m.onnx")
    assert answer.code == 1
    assert "ZeroDivisionError: one. Run again with --debug" in answer.message
