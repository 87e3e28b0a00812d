"""``partita plan --samples``: bits within a drop of accuracy, from end to end, and bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from partita.plan import load_plan
from tests.cli.conftest import Ask
from tests.trained import draw_pictures, train

#: A camera whose weights come from slow memory, so that fewer bits take less time.
LAB = """
[cluster]
name = "gate"
requester = "camera"

[[device]]
name = "camera"
memory = "64 MB"

[device.array]
rows = 4
columns = 4
dataflow = "ws"
clock = "4 MHz"
on_chip = "4 KiB"
off_chip = "2 MB/s"

[[device]]
name = "server"
kind = "jetson-xavier"

[[link]]
between = ["*", "*"]
bandwidth = "300 kbit/s"
latency = "1 ms"
"""
WORDS = ("plan", "net.onnx", "--cluster", "lab.toml", "--planner", "autosplit")
STRICT = """
import numpy as np
known = {}

def is_exact(run, data):
    found = [run(sample.feeds)["y"].tobytes() for sample in data]
    return [float(one == known.setdefault(place, one)) for place, one in enumerate(found)]
"""
JUDGES = """
import numpy as np
calls = []

def count_right(run, data):
    return [float(np.argmax(run(sample.feeds)["y"]) == sample.label) for sample in data]

def fail(run, data):
    raise ValueError("no boxes")

def none(run, data):
    return float("nan")

def words(run, data):
    return "good"
"""


@pytest.fixture
def lab(folder: Path) -> Path:
    """Return the folder with a trained network, labelled pictures and a judge."""
    onnx.save(train().model, folder / "net.onnx")
    (folder / "lab.toml").write_text(LAB)
    (folder / "judges.py").write_text(JUDGES)
    for number, (picture, label) in enumerate(zip(*draw_pictures(80, 3), strict=True)):
        for path in (folder / "classes" / str(label), folder / "flat"):
            path.mkdir(parents=True, exist_ok=True)
            np.save(path / f"{number}.npy", picture)
    return folder


def test_a_plan_within_a_drop_from_end_to_end(ask: Ask, lab: Path) -> None:
    """The reply says what was judged; the plan has bits, keeps what was asked, and answers."""
    answer = ask(*WORDS, "--samples", "classes", "-o", "a.json", "--json")
    assert answer.code == 0
    accuracy = answer.reply["accuracy"]
    assert accuracy["low"] <= accuracy["drop"] <= 0.05
    assert accuracy["samples"] == 60
    chosen = [each for each in answer.reply["trade_offs"] if each["is_chosen"]]
    assert [each["accuracy"] for each in chosen] == [accuracy]
    plan = load_plan(lab / "a.json")
    assert plan.bits
    assert plan.options is not None
    assert (plan.options.accuracy_drop, plan.options.samples) == (0.05, ("classes",))
    assert ask("check", "a.json").code == 0
    assert ask("simulate", "a.json").code == 0
    again = ask(*WORDS, "--samples", "flat", "--accuracy-drop", "20%")
    assert "top-1 agreement with the float model, on 60 samples apart from 20" in again.out
    assert "% less than the network as it is (95 %:" in again.out
    assert "Why:         all on the edge takes" in again.out


def test_what_samples_say_is_kept(ask: Ask, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second plan runs nothing over the samples for ranges; another model does."""
    first = ask(*WORDS, "--samples", "flat", "--json").reply

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("partita.quantisation.data.collect_ranges", fail)
    second = ask(*WORDS, "--samples", "flat", "--json").reply
    assert second["trade_offs"] == first["trade_offs"]
    for kept in Path(os.environ["XDG_CACHE_HOME"]).rglob("tables/*.json"):
        kept.write_text("{")
    with pytest.raises(AssertionError):
        ask(*WORDS, "--samples", "flat", "--debug")


def test_errors_may_be_what_outputs_lose(ask: Ask, lab: Path) -> None:
    """The measure is told, kept in the plan, and its errors in the cache; others are refused."""
    words = (*WORDS, "--samples", "flat")
    answer = ask(*words, "--measure", "noise", "-o", "n.json", "--json")
    assert (answer.code, answer.reply["measure"]) == (0, "noise")
    assert answer.reply["accuracy"]["drop"] <= 0.05 + 1e-9
    plan = load_plan(lab / "n.json")
    assert plan.options is not None
    assert plan.options.measure == "noise"
    assert len(list(Path(os.environ["XDG_CACHE_HOME"]).rglob("tables/*.json"))) == 3
    again = ask(*words, "--measure", "noise")
    assert "Errors:      noise over signal at the outputs, one layer rounded alone" in again.out
    refused = ask(*words, "--measure", "cross-entropy")
    assert "--measure is 'cross-entropy', allowed: mse, noise, output-mse, kl" in refused.message
    assert "--measure needs samples" in ask(*WORDS, "--measure", "kl").message


def test_what_weights_lose_is_found_once_for_all_commands(
    ask: Ask, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning takes it from where quantising has put it, and has ranges of its own."""
    asked = ("quantize", "net.onnx", "--samples", "flat", "--json")
    first = ask(*asked).reply

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("partita.quantisation.data.tabulate_weights", fail)
    assert ask(*WORDS, "--samples", "flat", "--debug").code == 0
    monkeypatch.setattr("partita.quantisation.data.collect_ranges", fail)
    assert ask(*asked, "--debug").reply == first


def test_a_plan_on_integer_kernels_within_a_drop(ask: Ask, lab: Path) -> None:
    """The plan, what was asked, and what runs speak of these kernels; floats are for others."""
    words = (*WORDS, "--samples", "classes", "--accuracy-drop", "20%")
    told = ask(*words, "--kernels", "integer", "-o", "i.json")
    assert told.code == 0, told.err
    plan = load_plan(lab / "i.json")
    assert plan.bits
    assert plan.integer_kernels
    assert plan.options is not None
    assert plan.options.integer_kernels
    checked = ask("check", "i.json", "--cases", "1", "--json")
    assert (checked.code, checked.reply["passed"]) == (0, True)
    assert ask(*words, "--kernels", "float", "-o", "f.json").code == 0
    assert not load_plan(lab / "f.json").integer_kernels


@pytest.mark.parametrize("planner", ["best", "edge_only"])
def test_kernels_without_anything_quantised_are_refused(ask: Ask, lab: Path, planner: str) -> None:
    """One line says what to give: a planner that leaves all as it is has nothing to run on them."""
    words = ("plan", "net.onnx", "--cluster", "lab.toml", "--planner", planner)
    answer = ask(*words, "--kernels", "integer")
    assert answer.code == 2
    assert "--kernels integer: no layer of model 'net' is quantised. Give --bits" in answer.message


def test_where_no_widths_keep_accuracy_outputs_are_measured(ask: Ask, lab: Path) -> None:
    """The search goes on by what outputs lose, and says so; none is found where none can be."""
    (lab / "strict.py").write_text(STRICT)
    words = (*WORDS, "--samples", "flat", "--judge", "strict:is_exact", "--accuracy-drop", "0%")
    answer = ask(*words, "-o", "s.json", "--json")
    assert (answer.code, answer.reply["measure"]) == (0, "noise")
    plan = load_plan(lab / "s.json")
    assert not plan.bits
    assert plan.options is not None
    assert plan.options.measure == "noise"
    assert ask(*words, "--measure", "mse", "--json").reply["measure"] == "mse"


def test_the_users_own_judge(ask: Ask, lab: Path) -> None:
    """A function of a module in the current folder; it may bound nothing but what it scores."""
    words = (*WORDS, "--samples", "classes", "--judge", "judges:count_right")
    ours, usual = ask(*words, "--json"), ask(*WORDS, "--samples", "classes", "--json")
    assert ours.code == 0
    assert ours.reply["accuracy"] == usual.reply["accuracy"]
    assert "judges:count_right, on 60 samples" in ask(*words).out


@pytest.mark.parametrize("name", ["p.png", "p.svg", "p.json"])
def test_all_choices_in_a_file(ask: Ask, lab: Path, name: str) -> None:
    """A picture, or the numbers; every choice is judged."""
    answer = ask(*WORDS, "--samples", "classes", "--pareto", name)
    assert answer.code == 0
    assert f"Choices written to {name}" in answer.out
    data = (lab / name).read_bytes()
    if name == "p.json":
        choices = json.loads(data)["trade_offs"]
        assert all(each["accuracy"] is not None for each in choices)
        assert {each["kind"] for each in choices} >= {"cloud", "edge"}
    else:
        assert data.startswith(b"\x89PNG" if name == "p.png" else b"<?xml")


def test_a_bound_on_errors_needs_no_judge(ask: Ask, lab: Path) -> None:
    """What it sets is heeded, and no accuracy is claimed."""
    words = ("--set", "autosplit.most_error=1e-3", "--samples", "flat", "--pareto", "p.png")
    answer = ask(*WORDS, *words, "--json")
    assert answer.code == 0
    assert answer.reply["accuracy"] is None
    assert all(each["error"] <= 1e-3 for each in answer.reply["trade_offs"])


def test_rivals_of_one_width_are_judged(ask: Ask, lab: Path) -> None:
    """All on the edge in 2 bits is told what it loses."""
    words = ("--planner", "edge_only", "--set", "edge_only.bits=2", "--samples", "classes")
    answer = ask("plan", "net.onnx", "--cluster", "lab.toml", *words, "--json")
    assert answer.reply["accuracy"]["drop"] > 0.3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--accuracy-drop", "5%"], "--accuracy-drop needs samples: give --samples"),
        (["--pareto", "p.png"], "--pareto needs samples"),
        (["--judge", "judges:fail"], "--judge needs samples"),
        (["--samples", "flat", "--accuracy-drop", "5"], "allowed: 0% to below 100%, such as 5%"),
        (["--samples", "flat", "--accuracy-drop", "some"], "'some', allowed: 0% to below 100%"),
        (["--samples", "flat", "--judge", "judges"], "Judge 'judges' is unknown; allowed: labels"),
        (["--samples", "flat", "--judge", "judges:"], "'judges:', allowed: MODULE:FUNCTION"),
        (["--samples", "flat", "--judge", "labels"], "needs a folder of samples for each class"),
        (["--samples", "flat", "--judge", "nowhere:f"], "'nowhere' cannot be imported: ModuleNot"),
        (["--samples", "flat", "--judge", "judges:f"], "'judges' has no function 'f'"),
        (["--samples", "flat", "--judge", "judges:calls"], "'judges' has no function 'calls'"),
        (["--samples", "flat", "--judge", "judges:fail"], "plans failed: ValueError: no boxes"),
        (["--samples", "flat", "--judge", "judges:none"], "answered nan, allowed: a finite number"),
        (["--samples", "flat", "--judge", "judges:words"], "answered 'good', allowed"),
        (["--samples", "flat", "--pareto", "p.jpg"], "ends in .png, .svg, .json"),
        (["--samples", "flat", "--pareto", "net.onnx"], "'net.onnx' is an input of this command"),
        (["--samples", "flat", "--pareto", "p"], "'p', allowed: a file that ends in .png, .svg"),
        (
            ["--samples", "flat", "--planner", "edge_only", "--pareto", "p.png"],
            "--pareto: planner 'edge_only' does not choose among widths; allowed: autosplit, tiers",
        ),
        (["--samples", "flat", "--pareto", "no/p.png"], "written: there is no folder 'no'"),
        (["--samples", "flat", "--pareto", "lab.toml/p.png"], "written: 'lab.toml' is a file"),
        (["--samples", "flat", "--pareto", "./out.json"], "is another output of this command, too"),
        (
            ["--samples", "flat", "--planner", "best"],
            "'best' leaves the network as it is; allowed: ",
        ),
        (["--samples", "flat", "--bits", "b.json"], "leave out --bits, which gives them"),
        (["--samples", "flat", "--want", "5/s"], "--want leaves the network as it is"),
        (["--samples", "empty"], "'empty' has no .npy, .npz or image files"),
        (["--samples", "few"], "There are 3 different samples, needed are at least 8"),
        (["--samples", "shape"], "has shape (1, 3, 8, 8) of float32, model input 'x' needs"),
        (["--samples", "nan"], "has 768 values for 'x' that are NaN or infinite"),
        (
            ["--samples", "flat", "--set", "autosplit.input_bits=5"],
            "'autosplit.input_bits' is '5', must be 2, 3, 4, 6, 8 or 32",
        ),
    ],
)
def test_what_cannot_be_is_refused(ask: Ask, lab: Path, words: list[str], message: str) -> None:
    """One line, and nothing written."""
    (lab / "empty").mkdir()
    for name, shape, value, count in (
        ("few", (1, 3, 16, 16), 0.5, 3), ("shape", (1, 3, 8, 8), 0.5, 9),
        ("nan", (1, 3, 16, 16), np.nan, 9),
    ):  # fmt: skip
        (lab / name).mkdir()
        for number in range(count):
            np.save(lab / name / f"{number}.npy", np.full(shape, value + number, np.float32))
    given = [word for word in WORDS if word != "autosplit" or "--planner" not in words]
    if "--planner" in words:
        given.remove("--planner")
    answer = ask(*given, *words, "-o", "out.json")
    assert answer.code == 2
    assert message in answer.message
    assert not (lab / "out.json").exists()


def test_compare_marks_what_is_not_exact(ask: Ask, lab: Path) -> None:
    """Bits and lossy transfers in words, with the accuracy of each; nothing of what is exact."""
    words = ("compare", "net.onnx", "--cluster", "lab.toml", "--planners")
    names = "autosplit,edge_only,cloud_only"
    answer = ask(*words, names, "--compress", "float16", "--samples", "classes", "--json")
    by_name = {each["planner"]: each for each in answer.reply["planners"]}
    assert by_name["edge_only"]["inexact"] == ""
    assert by_name["edge_only"]["accuracy"]["drop"] == 0
    assert by_name["cloud_only"]["inexact"] == "sends float16"
    assert by_name["autosplit"]["inexact"].startswith("weights")
    assert by_name["autosplit"]["accuracy"]["drop"] <= 0.05
    assert "not exact" not in ask(*words, "cloud_only").out
    shown = ask(*words, "edge_only", "--set", "edge_only.bits=2", "--samples", "classes").out
    for text in ("not exact", "weights 2, activations 2–8", "top-1, on 60 samples apart from 20"):
        assert text in shown
    assert "Lab:" not in shown
    refused = ask(*words, "single", "--samples", "flat")
    assert "'single' leaves the network as it is" in refused.message


def test_compare_takes_integer_kernels(ask: Ask, lab: Path) -> None:
    """What is quantised runs on them; where nothing is, or they have another name, it is said."""
    words = ("compare", "net.onnx", "--cluster", "lab.toml", "--planners", "edge_only,single")
    bits = ("--set", "edge_only.bits=4", "--samples", "classes")
    answer = ask(*words, *bits, "--kernels", "integer", "--json")
    found = {each["planner"]: each["inexact"] for each in answer.reply["planners"]}
    assert found == {
        "edge_only": "weights 4, activations 4–8; on integer kernels",
        "single": "",
    }
    assert "integer kernels" not in ask(*words, *bits, "--kernels", "float").out
    assert "no layer of model 'net' is quantised" in ask(*words, "--kernels", "integer").message
    assert "allowed: integer, float" in ask(*words, *bits, "--kernels", "int8").message
