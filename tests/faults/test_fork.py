"""A process that forks while it leads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_SCRIPT = """
import os, sys, warnings
from pathlib import Path
from tests.worker.tiny import random_inputs, tiny_chain
from partita.cluster import Cluster, Device
from partita.errors import RunError
from partita.lab import LabOptions, start_lab
from partita.leader import deploy

warnings.simplefilter("ignore", DeprecationWarning)
tiny = tiny_chain(2, 2)
inputs = random_inputs(tiny.program, 3)
end, options = sys.argv[2], LabOptions(store=Path(sys.argv[1]))
with start_lab(Cluster.of([Device("d0"), Device("d1")]), options) as lab:
    with deploy(tiny, lab.endpoint) as session:
        before = session.run(inputs)
        child = os.fork()
        if child == 0:
            told = []
            for use in (
                lambda: session.run(inputs),
                lambda: lab.endpoint.call("d0", "clock", b"", 1.0),
            ):
                try:
                    use()
                except RunError as error:
                    told.append("a fork of it cannot use" in error.message)
            if end == "close":
                session.close()
                lab.endpoint.close()
                os._exit(0 if told == [True, True] else 7)
            sys.exit(0 if told == [True, True] else 7)  # unwinds all contexts
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        after = session.run(inputs)
        assert all((a["t1"] == b["t1"]).all() for a, b in zip(before, after, strict=True))
        assert Path(sys.argv[1]).exists()
print("unharmed")
"""


@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_fork_is_told_and_its_parent_goes_on(tmp_path: Path, end: str) -> None:
    """The child gets one line; whether it closes what it has or unwinds, the parent's run lives."""
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path), end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "unharmed\n"
