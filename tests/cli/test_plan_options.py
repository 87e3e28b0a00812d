"""What a plan file says was asked of its planner: it is asked again after a loss or a drift."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ask

CASES: tuple[tuple[str, object, str, str], ...] = (
    ("devices", ["a", "moon"], "'moon'", "known are a, b"),
    ("energy_limits", {"moon": 1.0}, "'moon'", "known are a, b"),
    ("energy_limits", {"a": -1.0}, "'a' is -1 J", "above 0 J"),
    ("wires", {"q": "uint8"}, "'q'", "inputs are x"),
    ("wires", {"x": "uint9"}, "'uint9'", "uint8"),
    ("compress", "zip", "'zip'", "uint8"),
    ("axes", ["depth"], "'depth'", "rows"),
    ("max_evaluations", 0, "price: 0", "at least 1"),
    ("method", {"magic.x": "1"}, "'magic'", "allowed: single"),
    ("method", {"distredge.x": "1"}, "'distredge.x'", "episodes"),
)


@pytest.mark.parametrize("case", CASES)
def test_what_no_planner_could_heed_is_refused_at_once(
    ask: Ask, folder: Path, case: tuple[str, object, str, str]
) -> None:
    """Not when a device is lost; one line names the file, what is wrong and what is allowed."""
    key, value, wrong, allowed = case
    plan = json.loads((folder / "p.json").read_text())
    plan["options"] = {key: value}
    (folder / "p.json").write_text(json.dumps(plan))
    answer = ask("check", "p.json")
    assert answer.code == 2
    for words in ("Plan file 'p.json'", wrong, allowed):
        assert words in answer.message


def test_an_objective_that_is_unknown(ask: Ask, folder: Path) -> None:
    """It is the plan's own, and asked for again, too."""
    plan = json.loads((folder / "p.json").read_text())
    (folder / "p.json").write_text(json.dumps(plan | {"objective": "joy", "options": {}}))
    assert "'joy' is unknown; allowed: latency" in ask("check", "p.json").message
