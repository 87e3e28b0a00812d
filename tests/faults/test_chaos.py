"""Cases of the chaos benchmark: devices and cables are lost, every answer still comes once."""

from __future__ import annotations

import argparse
import os
import shutil

import pytest
from benchmarks.chaos import Case, run_case
from benchmarks.soak import soak

pytestmark = pytest.mark.slow

_NAMESPACES = bool(os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc"))
_needs_root = pytest.mark.skipif(not _NAMESPACES, reason="namespaces need root and iproute2")


@pytest.mark.parametrize(
    "case",
    [
        Case("double", 2, "user"),
        pytest.param(Case("cable", 0, "netns"), marks=_needs_root),
        pytest.param(Case("slow", 0, "netns"), marks=_needs_root),
    ],
    ids=["two apart", "cable", "slow link"],
)
def test_the_rest_answers_everything(case: Case) -> None:
    """Nothing is lost, doubled, reordered or wrong, and nothing else is given up."""
    outcome = run_case(case)
    assert outcome.error == ""
    assert outcome.wrong == 0
    assert outcome.given_up == outcome.struck


@pytest.mark.parametrize("seed", [1])
def test_whatever_happens_in_whatever_order_every_request_is_answered_once(seed: int) -> None:
    """Devices are killed, frozen and drained and come back, cables and rates change, under load."""
    arguments = argparse.Namespace(seconds=9.0, every=3.0, seed=seed, front=False)
    rows = {row.case.partition(" ")[0]: row for row in soak(arguments)}
    assert [rows[n] for n in ("faults", "ended", "wrong", "lost") if not rows[n].met] == []
