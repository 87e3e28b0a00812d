"""A solver's chatter does not come among answers on standard output."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from partita.planners.edgecloud.choices import choose_exactly
from partita.planners.edgecloud.solver_output import without_lines


def test_lines_of_the_solver_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """Written by C or to the descriptor; what others write meanwhile comes out, in order."""
    libc = ctypes.CDLL(None)
    print("before", flush=True)
    with without_lines(b"Solver::"):
        libc.printf(b"Solver::run();\n")
        os.write(1, b"an answer\nSolver::run();\n")
        os.write(1, b"half a line")
    print(" and after", flush=True)
    assert capfd.readouterr().out == "before\nan answer\nhalf a line and after\n"


def test_an_error_leaves_standard_output_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever ends the work."""

    def fail() -> None:
        with without_lines(b"Solver::"):
            os.write(1, b"Solver::run();\n")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    print("after", flush=True)
    assert capfd.readouterr().out == "after\n"


def test_a_process_without_standard_output_goes_on() -> None:
    """As a service's may be."""
    code = (
        "import os; os.close(1)\n"
        "from partita.planners.edgecloud.solver_output import without_lines\n"
        "with without_lines(b'x'): print('solved', file=__import__('sys').stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "solved\n"


def test_a_search_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """This problem makes HiGHS 1.12 repair solutions, of which it tells whatever it is told."""
    rng = np.random.default_rng(178)
    costs, uses = rng.lognormal(0, 3, (34, 8)), rng.lognormal(0, 4, (34, 8))
    limit = 1.5 * float(uses.min(axis=1).sum())
    assert choose_exactly(costs, [uses], [limit], gap=1e-4) is not None
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
