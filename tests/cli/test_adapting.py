"""Verbs whose plan may change: flags, replies, and what is said of traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ask

TRACE = "time_s,bandwidth\n0,200 Mbit/s\n100,1 Mbit/s\n200,200 Mbit/s\n"
CHANGE_KEYS = {
    "at_s", "why", "outcome", "detail", "search_s", "switched_s", "predicted_s", "measured_s",
    "fed_again", "outage_s",
}  # fmt: skip


def add_trace(folder: Path) -> None:
    """Have all links of the cluster follow a trace."""
    text = (folder / "pair.toml").read_text()
    (folder / "air.csv").write_text(TRACE)
    (folder / "pair.toml").write_text(f'{text}trace = "air.csv"\n')


def test_simulate_adapt(ask: Ask, folder: Path) -> None:
    """A long run changes its plan with its links; that the trace ends early is said."""
    add_trace(folder)
    words = ["simulate", "p.json", "--adapt", "--duration", "30", "--interval", "0.5"]
    more = ["--time-scale", "10", "--planner", "single", "--search-time", "1", "--hold", "1"]
    reply = ask(*words, *more, "--json").reply
    assert reply["requests"] == 60
    assert set(reply["latency_s"]) == {"mean", "p50", "p99"}
    assert all(set(one) == CHANGE_KEYS for one in reply["changes"])
    assert reply["changes"][0]["outcome"] == "switched"
    assert 11.0 < reply["changes"][0]["at_s"] < 14.0
    assert "last rate held" in reply["notes"][0]
    shown = ask(*words, *more).out
    assert "Changes of plan" in shown
    assert "the last rate held" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["run", "p.json", "--adapt", "--threshold", "0"],
            "'--threshold': got 0, allowed: 0.01 to",
        ),
        (["run", "p.json", "--adapt", "--hold", "-1"], "'--hold': got -1, allowed: 0 to"),
        (["run", "p.json", "--adapt", "--budget", "nan"], "'--budget': got nan, allowed: 0 to"),
        (["run", "p.json", "--time-scale", "0"], "'--time-scale': got 0, allowed: 1e-06 to"),
        (["lab", "pair.toml", "--time-scale", "-2"], "'--time-scale': got -2, allowed"),
        (["simulate", "p.json", "--adapt", "--duration", "0"], "'--duration': got 0, allowed"),
        (["simulate", "p.json", "--adapt", "--interval", "-1"], "'--interval': got -1, allowed"),
        (
            ["simulate", "p.json", "--adapt", "--search-time", "-1"],
            "'--search-time': got -1, allowed",
        ),
        (["simulate", "p.json", "--adapt", "--planner", "oracle"], "'oracle' is unknown; allowed"),
        (["run", "p.json", "--adapt", "--planner", "oracle"], "'oracle' is unknown; allowed"),
    ],
)
def test_bad_flags_are_one_line(ask: Ask, words: list[str], text: str) -> None:
    """A number out of range or an unknown planner is refused at once, with what is allowed."""
    answer = ask(*words)
    assert answer.code == 2
    assert text in answer.message


def test_a_plan_for_several_requests_at_a_time_is_not_simulated(ask: Ask) -> None:
    """The long run knows one request at a time, and says so."""
    words = ["plan", "m.onnx", "--cluster", "pair.toml", "--planner", "cut", "--in-flight", "2"]
    assert ask(*words, "-o", "two.json").code == 0
    answer = ask("simulate", "two.json", "--adapt")
    assert answer.code == 2
    assert "one request at a time, the plan is for 2" in answer.message


@pytest.mark.slow
def test_run_adapt(ask: Ask, folder: Path) -> None:
    """A run that adapts answers as ever and lists its changes; the trace is shorter than it."""
    add_trace(folder)
    reply = ask(
        "run", "p.json", "--adapt", "--time-scale", "10000", "--requests", "20", "--check", "--json"
    ).reply
    assert reply["passed"]
    assert all(set(one) == CHANGE_KEYS for one in reply["changes"])
    assert "last rate held" in reply["notes"][0]
