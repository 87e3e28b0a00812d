"""``partita whatif``: which change gains most."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Ask

QUICK = ("--budget", "2", "--planner", "collaborative")


def test_a_plan_is_asked_about_with_the_usual_changes(ask: Ask) -> None:
    """One of each kind, links and formats are ranked, with planning anew among them."""
    answer = ask("whatif", "p.json", *QUICK, "--json")
    assert answer.code == 0, answer.err
    names = [change["name"] for change in answer.reply["changes"]]
    assert set(names) == {
        "nothing changed, planned anew",
        "one more raspberry-pi-4",
        "one more jetson-nano",
        "every link 2x as fast",
        "tensors as float16 (not exact)",
        "tensors as uint8 (not exact)",
    }
    gains = [change["gain"] for change in answer.reply["changes"]]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) >= 1
    assert answer.reply["bottleneck"].endswith("% busy")
    for change in answer.reply["changes"]:
        assert change["most_gain"] is None or change["most_gain"] >= change["gain"]


def test_a_model_is_asked_about_with_changes_that_are_named(ask: Ask) -> None:
    """Each flag is a change; several are also tried together."""
    words = ("--add", "jetson-nano:2", "--link", "a:b=1 Gbit/s", "--memory", "b=4 GB")
    answer = ask("whatif", "m.onnx", "--cluster", "pair.toml", *QUICK, *words)
    assert answer.code == 0, answer.err
    assert "2 more jetson-nano and link a - b at 1 Gbit/s and 4 GB memory for b" in answer.out
    assert "Now: " in answer.out
    assert "is the bottleneck" in answer.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--add", "abacus"), "Nothing is known of kind 'abacus'"),
        (("--add", "jetson-nano:0"), "allowed: KIND or KIND:NUMBER"),
        (("--link", "fast"), "or a factor, such as 2x"),
        (("--link", "a=2x"), "A:B=RATE"),
        (("--link", "a:nobody=2x"), "no link between 'a' and 'nobody'"),
        (("--link", "0x"), "amounts above zero"),
        (("--memory", "nobody=1 GB"), "'nobody' is not in cluster"),
        (("--memory", "-1 GB"), "amounts above zero"),
        (("--compress", "raw"), "float16"),
        (("--compress", "zlib"), "needs samples"),
        (("--objective", "energy"), "is for a model"),
    ],
)
def test_what_cannot_be_is_one_line(ask: Ask, words: tuple[str, str], told: str) -> None:
    """The line names the flag, and what is allowed."""
    answer = ask("whatif", "p.json", *words)
    assert answer.code == 2
    assert told in answer.message


def test_a_model_needs_a_cluster(ask: Ask) -> None:
    """A plan has its own; a model has none."""
    assert "--cluster FILE" in ask("whatif", "m.onnx").message
    assert "is a model itself" in ask("whatif", "m.onnx", "--model", "m.onnx").message
