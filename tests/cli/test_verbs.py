"""Each verb does what it says, and its JSON reply has the promised keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from partita.cluster import load_cluster
from partita.profile import load_profile
from tests.cli.conftest import Ask

RUN_KEYS = {"planner", "seed", "latency_s", "images_per_second", "devices", "links"}
DEVICE_KEYS = {"name", "busy_s", "peak_memory_bytes"}
LINK_KEYS = {"from", "to", "bytes", "busy_s"}


def assert_run(reply: dict[str, object]) -> None:
    """Check the keys that every predicted or measured run has."""
    assert reply.keys() >= RUN_KEYS
    assert set(reply["latency_s"]) == {"mean", "p50", "p99"}  # type: ignore[call-overload]
    assert all(set(one) == DEVICE_KEYS for one in reply["devices"])  # type: ignore[attr-defined]
    assert all(set(one) == LINK_KEYS for one in reply["links"])  # type: ignore[attr-defined]


def test_inspect(ask: Ask) -> None:
    """The model's layers, cuts, work and weights, and how each layer can be divided."""
    reply = ask("inspect", "m.onnx", "--json").reply
    assert reply.keys() >= {"layers", "cuts", "macs", "weight_bytes", "parameters"}
    assert [layer["name"] for layer in reply["layers"][:2]] == ["first", "second"]
    assert reply["layers"][0]["splits"] == ["rows", "output_channels", "input_channels"]
    assert (reply["layers"][0]["advised"], reply["layers"][0]["reason"]) == ("none", "small")
    assert reply["parameters"] == 8 * 3 * 9 + 8 * 8 * 9 + 8 * 5
    assert reply["macs"] == 256 * (8 * 3 * 9 + 8 * 8 * 9) + 8 * 5


def test_inspect_fixes_free_dimensions(ask: Ask) -> None:
    """``--shape`` gives the size of an image that the model leaves open."""
    reply = ask("inspect", "free.onnx", "--shape", "x=1x3x16x16", "--json").reply
    assert reply["inputs"] == [{"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32"}]


def test_plan(ask: Ask, folder: Path) -> None:
    """The reply carries prediction, bound and stages; the file is written."""
    reply = ask(
        "plan", "m.onnx", "--cluster", "pair.toml", "--planner", "cut", "-o", "q.json", "--json"
    ).reply
    assert_run(reply)
    assert reply.keys() >= {"status", "lower_bound_s", "worth_splitting", "search_s", "stages"}
    assert reply["lower_bound_s"] <= reply["latency_s"]["mean"] * (1 + 1e-9)
    assert json.loads((folder / "q.json").read_text())["model"]["path"] == "m.onnx"


def test_compare(ask: Ask, folder: Path) -> None:
    """Each planner that was asked for is one entry; the chart is written."""
    reply = ask(
        "compare", "m.onnx", "--cluster", "pair.toml", "--planners", "single,cut,equal_rows",
        "-o", "chart.png", "--json",
    ).reply  # fmt: skip
    assert [one["planner"] for one in reply["planners"]] == ["single", "cut", "equal_rows"]
    for one in reply["planners"]:
        assert_run(one)
    assert (folder / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_compare_on_the_lab(ask: Ask) -> None:
    """What was measured stands beside, and which devices run at another speed than priced."""
    words = ("compare", "m.onnx", "--cluster", "pair.toml", "--planners", "single,equal_rows")
    reply = ask(*words, "--run", "--requests", "1", "--json").reply
    assert all(one["measured"]["latency_s"]["mean"] > 0 for one in reply["planners"])
    (note,) = reply["notes"]
    assert note.startswith("Lab: not emulated in speed: a, b. They compute as fast as this machine")


def test_simulate(ask: Ask, folder: Path) -> None:
    """The prediction has the same keys as a run; the timeline is a trace."""
    reply = ask("simulate", "p.json", "--requests", "3", "--trace", "t.json", "--json").reply
    assert_run(reply)
    assert "traceEvents" in json.loads((folder / "t.json").read_text())


def test_check(ask: Ask) -> None:
    """A sound plan passes."""
    reply = ask("check", "p.json", "--cases", "2", "--json").reply
    assert reply.keys() >= {"max_difference", "max_magnitude", "passed", "cases"}
    assert reply["passed"]
    assert reply["cases"] == 2
    assert reply["max_difference"] <= 1e-5 * reply["max_magnitude"]
    assert reply["file_relative"] <= 1e-5


def test_check_fails_a_graph_that_is_not_its_file(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in reading a model would be in both networks that are compared."""
    from partita.graph import Graph

    honest = Graph.to_model

    def wrong(self: Graph, *given: object) -> onnx.ModelProto:
        model = honest(self)
        weight = model.graph.initializer[0]
        array = onnx.numpy_helper.to_array(weight) * np.float32(1.01)
        weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
        return model

    monkeypatch.setattr(Graph, "to_model", wrong)
    answer = ask("check", "p.json", "--json")
    assert answer.code == 4
    assert answer.reply["file_relative"] > 1e-4
    assert not answer.reply["passed"]


def test_check_takes_files(ask: Ask, folder: Path) -> None:
    """Given inputs are used: a file, a named file, and a directory."""
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)
    (folder / "in").mkdir()
    for name in ("one", "two"):
        np.save(folder / "in" / f"{name}.npy", image)
    np.savez(folder / "z.npz", x=image)
    for given, count in (("in", 2), ("x=in/one.npy", 1), ("z.npz", 1)):
        assert ask("check", "p.json", "--input", given, "--json").reply["cases"] == count


def test_check_takes_images(ask: Ask, folder: Path) -> None:
    """An image becomes the input's size and type."""
    from PIL import Image

    Image.new("RGB", (40, 30), (200, 10, 10)).save(folder / "i.png")
    assert ask("check", "p.json", "--input", "i.png", "--json").reply["passed"]


def test_check_fails_a_divided_network_that_differs(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4 where the divided network is not the whole one."""
    from partita.exactness import interpret

    honest = interpret._Interpreter._compute

    def wrong(self: object, step: object) -> None:
        honest(self, step)  # type: ignore[arg-type]
        for buffer in step.writes:  # type: ignore[attr-defined]
            box, array = self._held[buffer]  # type: ignore[attr-defined]
            self._held[buffer] = (box, array * np.float32(1.01))  # type: ignore[attr-defined]

    monkeypatch.setattr(interpret._Interpreter, "_compute", wrong)
    answer = ask("check", "p.json", "--json")
    assert answer.code == 4
    assert not answer.reply["passed"]


def test_export(ask: Ask, folder: Path) -> None:
    """Fragments that ONNX accepts, a manifest that names them, and the stamped model."""
    reply = ask("export", "p.json", "-o", "out", "--json").reply
    manifest = json.loads((folder / "out/manifest.json").read_text())
    assert len(reply["fragments"]) == len(manifest["fragments"]) > 1
    for path in reply["fragments"]:
        onnx.checker.check_model(folder / path)
    stamped = onnx.load(folder / "out/model.onnx")
    assert stamped.configuration[0].num_devices == 2
    assert all(node.device_configurations for node in stamped.graph.node)


def test_zoo(ask: Ask, folder: Path) -> None:
    """The list has counts; a model is written where it was asked for."""
    listed = ask("zoo", "--json").reply["models"]
    assert all(set(one) == {"name", "input", "parameters", "macs"} for one in listed)
    reply = ask("zoo", "mobilenet_v2", "--size", "32", "-o", "z.onnx", "--json").reply
    assert reply.keys() >= {"name", "parameters", "macs"}
    assert (folder / "z.onnx").stat().st_size > 10_000_000


def test_profile(ask: Ask, folder: Path) -> None:
    """A profile is measured, written, and used by a plan."""
    reply = ask("profile", "m.onnx", "--repeats", "2", "-o", "p.profile.json", "--json").reply
    assert reply["layers"] == 5
    text = (folder / "pair.toml").read_text().replace('"raspberry-pi-4"', '"this-machine"')
    (folder / "mine.toml").write_text(text)
    answer = ask(
        "plan", "m.onnx", "--cluster", "mine.toml", "--planner", "single",
        "--profile", "a=p.profile.json", "--json",
    )  # fmt: skip
    assert answer.code == 0


@pytest.mark.slow
def test_profile_of_a_cluster(ask: Ask, folder: Path) -> None:
    """Every worker and link is measured in one go; the file that comes out plans by itself."""
    words = ["m.onnx", "--cluster", "pair.toml", "--repeats", "1", "-o", "measured.toml", "--json"]
    reply = ask("profile", *words).reply
    assert [device["name"] for device in reply["devices"]] == ["a", "b"]
    assert reply["missing"] == []
    cluster = load_cluster(folder / "measured.toml")
    for device in cluster.devices:
        profile = load_profile(device.profile or "")
        assert profile.device == device.name
        assert profile.sum_of_layers_s > 0
    assert {link.pair for link in cluster.links} == {("a", "b"), ("b", "a")}
    plan = ask("plan", "m.onnx", "--cluster", "measured.toml", "-o", "q.json", "--json").reply
    assert plan["latency_s"]["mean"] > 0
    assert not list(folder.glob("*.unfinished"))


def test_doctor(ask: Ask) -> None:
    """The machine's facts are told."""
    reply = ask("doctor", "--json").reply
    assert reply["machine"]["planning_part"] == "complete"
    assert "jetson-nano" in reply["machine"]["known_devices"]


def test_lab_example_can_be_planned_for(ask: Ask, folder: Path) -> None:
    """The example cluster file is a cluster file."""
    from partita.cluster import load_cluster

    assert ask("lab", "--example", "e.toml").code == 0
    assert load_cluster(folder / "e.toml").names == ("camera", "box-1", "box-2")


@pytest.mark.parametrize(
    "command",
    [
        "inspect m.onnx",
        "check p.json",
        "zoo",
        "simulate p.json",
        "plan m.onnx --cluster pair.toml --planner cut",
        "compare m.onnx --cluster pair.toml --planners single,cut",
        "doctor",
    ],
)
def test_people_get_tables_and_stderr_stays_quiet(ask: Ask, command: str) -> None:
    """Without ``--json`` there is text on stdout, and no progress bar where nobody looks."""
    answer = ask(*command.split())
    assert answer.code == 0
    assert answer.err == ""
    assert len(answer.out.splitlines()) > 2


def test_no_command_is_a_call_for_help(ask: Ask) -> None:
    """The bare program lists its commands."""
    answer = ask()
    assert answer.code == 0
    assert "Commands:" in answer.out


@pytest.mark.slow
def test_run(ask: Ask, folder: Path) -> None:
    """A plan runs on two worker processes; answers, report and comparison are there."""
    text = (folder / "pair.toml").read_text()
    (folder / "pair.toml").write_text(text + "\n[lab]\nslow_down = { a = 2, b = 1 }\n")
    answer = ask("run", "p.json", "--requests", "3", "--check", "-o", "out",
                 "--report", "rep", "--json")  # fmt: skip
    assert answer.code == 0, answer.err
    assert_run(answer.reply)
    assert_run(answer.reply["predicted"])
    assert [note[:32] for note in answer.reply["notes"]] == ["Lab: not emulated in speed: a, b"]
    assert answer.reply["passed"]
    assert answer.reply["max_difference"] <= 1e-5 * answer.reply["max_magnitude"]
    with np.load(folder / "out/output-00002.npz") as arrays:
        assert arrays["y"].shape == (1, 5)
    assert "<html" in Path(answer.reply["report"]).read_text()[:200].lower()
