"""The backend tests of the installed ``onnx`` through everything that divides: the short form."""

from __future__ import annotations

import pytest
from benchmarks.backend import examine
from benchmarks.backend_cases import Case, load_cases


def first_of_each_operator() -> list[Case]:
    """Return the first case of each operator."""
    firsts: dict[str, Case] = {}
    for case in load_cases():
        firsts.setdefault(case.model.graph.node[0].op_type, case)
    return list(firsts.values())


@pytest.mark.slow
def test_each_operator_is_exact_or_refused_in_one_true_line() -> None:
    """Of each operator one test of onnx: no crash, no wrong answer, no untrue word."""
    outcomes = [examine(case) for case in first_of_each_operator()]
    assert len(outcomes) > 150
    assert [one for one in outcomes if one.verdict in ("crashed", "wrong", "unclear")] == []
