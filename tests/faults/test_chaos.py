"""Cases of the chaos benchmark: devices and cables are lost, every answer still comes once."""

from __future__ import annotations

import os
import shutil

import pytest
from benchmarks.chaos import Case, run_case

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
