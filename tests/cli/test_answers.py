"""Answers that are kept for after the run, and runs that lose a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita import api
from partita.cli import answers
from partita.cli.actions import deployed
from partita.cli.answers import KeptAnswers, PackedAnswers
from partita.cost import CostModel
from partita.errors import InputError
from partita.files import write_folder
from partita.lab import Lab, start_lab
from partita.leader import Session, fixed_costs
from partita.leader.worker_group import WorkerGroup
from tests.cli.conftest import Ask


def make_answer(number: int) -> dict[str, Any]:
    """Three arrays of 3 kB in all, of which one is no block of memory."""
    return {
        "y": np.full((2, 256), number, np.float32),
        "t": np.arange(256, dtype=np.float16).reshape(16, 16).T + number,
        "n": np.array(number, np.int64),
    }


def test_answers_beyond_the_room_come_back_as_they_were() -> None:
    """Order, shapes and types hold, whether an answer was held or lay in the file."""
    with KeptAnswers(held_bytes=6000) as kept:
        for number in range(5):
            kept.append(make_answer(number))
        assert len(kept) == 5
        assert len(kept._held) == 2
        for number, answer in enumerate(kept):
            for name, array in make_answer(number).items():
                np.testing.assert_array_equal(answer[name], array)
                assert answer[name].dtype == array.dtype
        assert [int(answer["n"]) for answer in kept[1:4]] == [1, 2, 3]
        assert int(kept[-1]["n"]) == 4


def test_a_folder_of_answers_is_written_one_by_one(tmp_path: Path) -> None:
    """No two packed answers are in memory at the same time, and all appear."""
    with KeptAnswers(held_bytes=0) as kept:
        for number in range(3):
            kept.append(make_answer(number))
        write_folder(tmp_path, PackedAnswers(kept))
    names = [f"output-{number:05d}.npz" for number in range(3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    with np.load(tmp_path / names[2]) as archive:
        assert int(archive["n"]) == 2


def test_answers_that_find_no_room_are_one_line(tmp_path: Path) -> None:
    """The folder is named, and what to do."""
    with (
        KeptAnswers(tmp_path / "nowhere", held_bytes=0) as kept,
        pytest.raises(InputError, match=r"Answer 0 cannot be kept in .*nowhere'"),
    ):
        kept.append(make_answer(0))


def keep_labs(monkeypatch: pytest.MonkeyPatch) -> list[Lab]:
    """The labs that commands will have started."""
    labs: list[Lab] = []

    @contextmanager
    def start(*words: Any) -> Iterator[Lab]:
        with start_lab(*words) as lab:
            labs.append(lab)
            yield lab

    monkeypatch.setattr(api, "start_lab", start)
    return labs


@pytest.mark.slow
def test_after_a_loss_the_plan_in_force_is_shown(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was lost, when, and what took over; every answer is there and right."""
    labs = keep_labs(monkeypatch)

    def strike(session: Session) -> None:
        device = next(name for name in labs[-1].processes if name != session.program.requester)
        labs[-1].kill(device)

    monkeypatch.setattr(answers.KeptAnswers.__init__, "__defaults__", (None, 0))
    monkeypatch.setattr(Session, "begin_traces", strike)
    words = ["run", "p.json", "--recover", "--requests", "12", "--check", "--report", "out"]
    reply = ask(*words, "-o", "answers", "--json").reply
    assert reply["passed"]
    (change,) = reply["changes"]
    assert change["outcome"] == "recovered"
    assert "is lost" in change["why"]
    assert change["switched_s"] >= change["at_s"]
    devices = {
        shard["device"] for stage in reply["last_plan"]["stages"] for shard in stage["shards"]
    }
    assert len(devices) == 1
    first, last = reply["plan_runs"]
    assert (first["name"], last["name"]) == ("at first", "at the end")
    assert first["predicted_s"] == reply["predicted"]["latency_s"]["p50"] != last["predicted_s"]
    assert first["requests"] + last["requests"] < 12  # some were fed twice
    assert last["requests"] > 0
    assert last["measured_s"] > 0
    assert len(list((folder / "answers").iterdir())) == 12
    page = (folder / "out" / "index.html").read_text(encoding="utf-8")
    assert "Plan in force at the end" in page
    assert "recovered" in page
    assert "Latency by plan" in page
    assert "predicted latency" not in page


@pytest.mark.slow
@pytest.mark.parametrize("when", ["measuring", "deploying"])
def test_a_loss_before_the_run_is_planned_around(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """While messages are measured, and while the plan is deployed: the rest answers everything."""
    labs = keep_labs(monkeypatch)
    relay, refine, greet = fixed_costs.measure_relay_s, deployed.refine_cost, WorkerGroup.greet

    def strike() -> None:
        if labs[-1].processes["b"].poll() is None:
            labs[-1].kill("b")

    def strike_and_relay(*words: Any, **more: Any) -> float:
        strike()
        return relay(*words, **more)

    def strike_and_greet(*words: Any, **more: Any) -> Any:
        strike()
        return greet(*words, **more)

    def measure(*words: Any) -> CostModel:
        cost = refine(*words)
        monkeypatch.setattr(WorkerGroup, "greet", strike_and_greet)
        return cost

    if when == "measuring":
        monkeypatch.setattr(fixed_costs, "measure_relay_s", strike_and_relay)
    else:
        monkeypatch.setattr(deployed, "refine_cost", measure)
    reply = ask("run", "p.json", "--recover", "--requests", "4", "--check", "--json").reply
    assert reply["passed"]
    (change,) = reply["changes"]
    assert (change["outcome"], change["detail"]) == ("recovered", "without device 'b'")
    assert change["at_s"] < 0
    first, last = reply["plan_runs"]
    assert (first["requests"], first["measured_s"], last["requests"]) == (0, None, 4)
    assert last["measured_s"] > 0
