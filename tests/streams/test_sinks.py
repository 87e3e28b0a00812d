"""Answers in lines and files: whole ones only, and what a second run finds."""

from __future__ import annotations

import json
import resource
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from partita.errors import InputError
from partita.quantisation.samples import Feeds
from partita.streams import (
    Content,
    JsonLines,
    NpyFolder,
    StreamAnswer,
    TopClasses,
    UserAnswer,
    open_sink,
)

SCORES = {"y": np.array([[0.25, -1.0, 2.5, 2.5]], np.float32)}


def answer(name: str, **outputs: object) -> StreamAnswer:
    """An answer with the given outputs, or scores of four classes."""
    arrays = {key: np.asarray(value) for key, value in outputs.items()}
    return StreamAnswer(name, np.zeros(1), arrays or SCORES, 0.1)


def best_and_first(content: Content, outputs: Feeds) -> dict[str, object]:
    """What NumPy has words for."""
    return {"best": outputs["y"].max(), "first": outputs["y"][0, :2], "given": content}


def test_lines_hold_all_numbers(tmp_path: Path) -> None:
    """Exactly; what JSON has no number for is null."""
    path = tmp_path / "a.jsonl"
    sink = open_sink(str(path))
    sink.write(answer("a.png"))
    sink.write(answer("b.png", y=[np.nan, 1.5], n=[[1], [2]]))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"name": "a.png", "outputs": {"y": [[0.25, -1.0, 2.5, 2.5]]}},
        {"name": "b.png", "outputs": {"y": [None, 1.5], "n": [[1], [2]]}},
    ]
    sink.close()


def test_a_line_is_there_once_it_is_written(tmp_path: Path) -> None:
    """Another process sees it before the sink is closed."""
    path = tmp_path / "a.jsonl"
    sink = open_sink(str(path))
    for count in (1, 2, 3):
        sink.write(answer(f"{count}.png"))
        assert path.read_text().count("\n") == count
    sink.close()


def test_a_line_for_which_the_disk_has_half_the_room_is_no_answer(tmp_path: Path) -> None:
    """The system takes the first part without an error; the rest is refused, and said."""
    path = tmp_path / "a.jsonl"
    sink = JsonLines(str(path))
    sink.write(answer("a.png"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(InputError, match=r"a\.jsonl' cannot be written: File too large\."):
            sink.write(answer("b.png"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    sink.close()
    with closing(JsonLines(str(path))) as second:
        assert second.written == {"a.png"}


def test_a_second_run_finds_what_was_written(tmp_path: Path) -> None:
    """A line that was not finished goes: its input is wanted again."""
    path = tmp_path / "a.jsonl"
    first = JsonLines(str(path))
    first.write(answer("a.png"))
    first.write(answer("b.png"))
    first.close()
    path.write_bytes(path.read_bytes()[:-4])
    second = JsonLines(str(path))
    assert second.written == {"a.png"}
    second.write(answer("b.png"))
    second.close()
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == [
        "a.png",
        "b.png",
    ]


@pytest.mark.parametrize("text", ["hello\n", '{"a": 1}\n', '["name"]\n', '{"name": 3}\n', "\n"])
def test_what_is_no_sink_is_left_alone(text: str, tmp_path: Path) -> None:
    """The line is named, and the file stays as it was."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"name": "x"}\n' + text + "tail")
    with pytest.raises(InputError, match="line 2 is no answer of a stream"):
        JsonLines(str(path))
    assert path.read_text().endswith("tail")


def test_likeliest_classes_come_first() -> None:
    """Of equal scores the lower number."""
    assert TopClasses(3)(answer("a.png")) == {
        "classes": [
            {"class": 2, "score": 2.5}, {"class": 3, "score": 2.5}, {"class": 0, "score": 0.25},
        ]
    }  # fmt: skip


def test_a_users_function_says_what_it_likes(tmp_path: Path) -> None:
    """NumPy's numbers and arrays are plain ones in the file; what JSON cannot hold is refused."""
    sink = JsonLines(str(tmp_path / "a.jsonl"), UserAnswer(best_and_first))
    sink.write(answer("a.png"))
    line = json.loads((tmp_path / "a.jsonl").read_text())
    assert line == {"name": "a.png", "answer": {"best": 2.5, "first": [0.25, -1.0], "given": [0.0]}}
    sink.close()
    for function, words in (
        (lambda _, outputs: outputs["z"], "KeyError"),
        (lambda *_: object(), "nothing that JSON holds: a object"),
    ):
        sink = JsonLines(str(tmp_path / "b.jsonl"), UserAnswer(function))
        with pytest.raises(InputError, match=words):
            sink.write(answer("a.png"))
        sink.close()
    assert (tmp_path / "b.jsonl").read_bytes() == b""


def test_a_folder_has_a_file_under_each_inputs_name(tmp_path: Path) -> None:
    """An array for one output, an archive for several; a second run finds both."""
    sink = open_sink(str(tmp_path / "out"))
    sink.write(answer("a.png"))
    sink.write(answer("v.mp4#000007", y=[1.0], n=[2]))
    np.testing.assert_array_equal(np.load(tmp_path / "out/a.png.npy"), SCORES["y"])
    with np.load(tmp_path / "out/v.mp4#000007.npz") as archive:
        assert (archive["y"].tolist(), archive["n"].tolist()) == ([1.0], [2])
    assert NpyFolder(str(tmp_path / "out")).written == {"a.png", "v.mp4#000007"}
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize(
    ("text", "describe", "words"),
    [
        ("out.csv", None, "is of no known kind; allowed: a file that ends in .jsonl"),
        ("out", TopClasses(1), "--classes and --answer are for lines of JSON"),
        ("nowhere/out.jsonl", None, "cannot be written: No such file"),
        ("file/out", None, "cannot be written to"),
    ],
)
def test_no_sink(
    text: str, describe: TopClasses, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with what is allowed."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InputError) as caught:
        open_sink(text, describe)
    assert words in caught.value.message
