"""``partita run --stream``: answers as they come, a second run, Ctrl-C, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from partita.cli.actions import deployed, run_stream
from partita.cluster import Cluster
from partita.fabric import Endpoint
from partita.program import TensorSpec
from partita.quantisation.pictures import prepare_picture
from partita.streams import JsonLines, StreamAnswer
from partita.streams.video import PipedVideo
from tests.cli.conftest import Ask, tiny_model
from tests.memory_lab import MemoryLab, memory_lab
from tests.models import run_model
from tests.streams.media import draw_pixels, piped, saved, write_pictures, write_video

RUN = ("run", "p.json", "--warm-up", "0")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are threads of this process, there at once, whose messages are not measured."""

    @contextmanager
    def start(cluster: Cluster, *_: object) -> Iterator[Endpoint]:
        with memory_lab(cluster.devices) as lab:
            yield lab.endpoint

    monkeypatch.setattr(run_stream, "open_endpoint", start)
    monkeypatch.setattr(deployed, "refine_cost", lambda endpoint, cost, program: cost)


def names_in(path: Path) -> list[str]:
    """The inputs that a file of lines has answers to."""
    return [json.loads(line)["name"] for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("threads")
def test_a_folder_is_answered_and_a_second_run_goes_on(ask: Ask, folder: Path) -> None:
    """Each input has one line, however often the command is given."""
    names = write_pictures(folder / "in", 3)
    words = (*RUN, "--stream", "in", "--sink", "out.jsonl", "--classes", "2", "--json")
    reply = ask(*words, "--in-flight", "3", "--report", "page").reply
    assert reply["stream"]["answered"] == 3
    assert reply["stream"]["latency_s"].keys() == {"p50", "p90", "p99"}
    assert reply.keys() >= {"predicted", "images_per_second", "devices"}
    assert names_in(folder / "out.jsonl") == names
    assert "3 answers" in (folder / "page/index.html").read_text()
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["classes"]) for line in lines] == [2, 2, 2]
    write_pictures(folder / "in", 5)
    (folder / "in/004.png").write_bytes(b"no picture")
    again = ask(*words, "--on-bad", "skip")
    assert again.reply["stream"].items() >= {
        "answered": 1, "answered_before": 3, "bad": 1, "bad_inputs": ["004.png"],
    }.items()  # fmt: skip
    assert "left out: Input file 'in/004.png' is no readable .png file" in again.err
    assert names_in(folder / "out.jsonl") == [*names, "003.png"]
    idle = ask(*words[:-1], "--on-bad", "skip")
    assert idle.code == 0
    assert "Answers written to out.jsonl, which had 4 before" in idle.out


def test_a_video_goes_to_standard_output(ask: Ask, folder: Path) -> None:
    """Lines alone; what people read goes to the other stream."""
    write_video(folder / "a.mp4", 4)
    answer = ask(*RUN, "--stream", "a.mp4", "--resize", "20", "--crop", "16", "--color", "bgr")
    assert answer.code == 0
    lines = [json.loads(line) for line in answer.out.splitlines()]
    assert [line["name"] for line in lines] == [f"a.mp4#{number:06d}" for number in range(4)]
    assert np.array(lines[0]["outputs"]["y"]).shape == (1, 5)
    assert "Stream: 4 answers" in answer.err


@pytest.mark.usefixtures("threads")
def test_ctrl_c_keeps_what_is_written(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says so; the same command goes on behind it."""
    names = write_pictures(folder / "in", 4)
    honest = JsonLines.write

    def write(sink: JsonLines, answer: StreamAnswer) -> None:
        honest(sink, answer)
        if answer.name == names[1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(JsonLines, "write", write)
    words = (*RUN, "--stream", "in", "--sink", "out.jsonl")
    answer = ask(*words)
    assert answer.code == 130
    assert "Stream: 2 answers" in answer.out
    assert names_in(folder / "out.jsonl") == names[:2]
    monkeypatch.setattr(JsonLines, "write", honest)
    assert ask(*words).code == 0
    assert names_in(folder / "out.jsonl") == names


@pytest.mark.usefixtures("threads")
def test_a_users_functions_prepare_and_describe(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are modules of the current folder; arrays come through standard input."""
    (folder / "mine.py").write_text(
        "import numpy as np\n"
        "def prepare(pixels):\n    return np.full((1, 3, 16, 16), pixels.mean(), np.float32)\n"
        "def describe(pixels, outputs):\n    return {'grey': pixels.mean(), 'n': len(outputs)}\n"
    )
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with piped(saved(draw_pixels(10), draw_pixels(30, (5, 7)))) as file:
        monkeypatch.setattr("partita.streams.source.PipedVideo", partial(PipedVideo, file))
        words = ("--stream", "-", "--prepare", "mine:prepare", "--answer", "mine:describe")
        answer = ask(*RUN, *words)
    assert [json.loads(line)["answer"] for line in answer.out.splitlines()] == [
        {"grey": 10.0, "n": 1}, {"grey": 30.0, "n": 1},
    ]  # fmt: skip


@pytest.mark.usefixtures("threads")
def test_only_answers_that_were_written_are_counted(ask: Ask, folder: Path) -> None:
    """The first could not be described; there is one word for one."""
    write_pictures(folder / "in", 2)
    (folder / "odd.py").write_text("def fail(content, outputs):\n    return content[0] / 'x'\n")
    answer = ask(*RUN, "--stream", "in", "--sink", "out.jsonl", "--answer", "odd:fail")
    assert answer.code == 2
    assert "0 answers were written" in answer.err


@pytest.mark.usefixtures("threads")
def test_a_stream_that_is_finished_says_so(ask: Ask, folder: Path) -> None:
    """Nobody is told latencies of nothing."""
    write_pictures(folder / "in", 1)
    words = (*RUN, "--stream", "in", "--sink", "out")
    first, second = ask(*words), ask(*words)
    assert "Stream: 1 answer, " in first.out
    assert "Stream: nothing to answer was left" in second.out
    assert "p50" not in second.out


@pytest.mark.usefixtures("threads")
def test_an_input_that_cannot_be_decoded_ends_the_run(ask: Ask, folder: Path) -> None:
    """It is named; answers before it are kept."""
    names = write_pictures(folder / "in", 3)
    (folder / "in" / names[2]).write_bytes(b"")
    answer = ask(*RUN, "--stream", "in", "--sink", "out")
    assert answer.code == 2
    assert "partita: Input file 'in/002.png' is no readable .png file" in answer.err
    assert "2 answers were written" in answer.err
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "000.png.npy",
        "001.png.npy",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--stream none.mp4", "Stream 'none.mp4' does not exist"),
        ("--rate 3", "--rate needs --stream"),
        ("--sink out.jsonl", "--sink needs --stream"),
        ("--mean 0.5", "--mean needs --stream"),
        ("--stream in --input i.npy", "--input does not go with --stream"),
        ("--stream in --check", "--check does not go with --stream"),
        ("--stream in --json", "--json needs a --sink other than -"),
        ("--stream in --when-full throw", "--when-full is 'throw', allowed: drop, wait"),
        ("--stream in --on-bad retry", "--on-bad is 'retry', allowed: skip, stop"),
        ("--stream in --rate 0", "'--rate': got 0, allowed: 1e-06 to 1000000"),
        ("--stream in --resize 12x", "--resize is '12x', allowed: pixels, as 224"),
        ("--stream in --mean 0.1,x", "--mean is '0.1,x', allowed: a number"),
        ("--stream in --mean 1,2", "mean has 2 numbers, model input 'x' has 3 channels"),
        ("--stream in --color grey", "--color is grey, allowed: rgb, bgr"),
        ("--stream in --std 0", "--std is 0, allowed: numbers above 0"),
        ("--stream in --prepare mine", "--prepare is 'mine', allowed: MODULE:FUNCTION"),
        ("--stream in --prepare m:f --color bgr", "--color does not go with --prepare"),
        ("--stream in --classes 1 --answer m:f", "--classes does not go with --answer"),
        ("--stream in --sink out.csv", "Sink 'out.csv' is of no known kind"),
        ("--stream in --sink in", "Sink 'in' is the stream itself"),
        ("--stream in/000.png --follow", "only folders are followed"),
    ],
)
def test_what_cannot_be_asked(words: str, told: str, ask: Ask, folder: Path) -> None:
    """One line, before any worker is started, and nothing is written."""
    write_pictures(folder / "in", 1)
    before = sorted(folder.iterdir())
    answer = ask(*RUN, *words.split())
    assert answer.code == 2
    assert told in (answer.out if "--json" in words else answer.message)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("stream", ["in", "in.avi"])
def test_a_device_that_is_lost_costs_no_answer(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """Each input has one line, in order, under its name, with the whole network's answer."""
    names: list[str]
    shown: list[Any]
    if stream == "in":
        names, shown = write_pictures(folder / stream, 25), [draw_pixels(10 * n) for n in range(25)]
    else:
        with av.open(str(write_video(folder / stream, 25, "mjpeg"))) as video:
            shown = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        names = [f"{stream}#{number:06d}" for number in range(25)]
    labs: list[MemoryLab] = []
    write = JsonLines.write

    @contextmanager
    def start(cluster: Cluster, *_: object) -> Iterator[Endpoint]:
        with memory_lab(cluster.devices) as lab:
            labs.append(lab)
            yield lab.endpoint

    def strike(sink: JsonLines, answer: StreamAnswer) -> None:
        if answer.name == names[4]:
            labs[-1].fabric.kill("b")
        write(sink, answer)

    monkeypatch.setattr(run_stream, "open_endpoint", start)
    monkeypatch.setattr(deployed, "refine_cost", lambda endpoint, cost, program: cost)
    monkeypatch.setattr(JsonLines, "write", strike)
    reply = ask(*RUN, "--recover", "--stream", stream, "--sink", "out.jsonl", "--json").reply
    assert [change["outcome"] for change in reply["changes"]] == ["recovered"]
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == names
    spec = TensorSpec("x", (1, 3, 16, 16), "float32")
    for pixels, line in zip(shown, lines, strict=True):
        whole = run_model(tiny_model(), {"x": prepare_picture(spec, pixels)})[0]
        np.testing.assert_allclose(
            line["outputs"]["y"], whole, rtol=0, atol=1e-5 * abs(whole).max()
        )
