"""How wide tables are, and what a shell may complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Ask


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("", 140), ("0", 140)])
def test_piped_tables_heed_columns(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    """Tables that are piped are as wide as ``COLUMNS`` says, else up to 140 columns."""
    monkeypatch.setenv("COLUMNS", columns)
    lines = ask("inspect", "m.onnx").out.splitlines()
    rule = next(line for line in lines if "──" in line)
    assert max(map(len, lines[: lines.index(rule) + 1])) <= widest
    assert (len(rule) > 60) == (widest > 60)


def test_shells_complete_verbs_and_flags() -> None:
    """The program answers a shell that asks what may follow."""
    code = "import sys; from partita.cli import start; sys.argv[0] = 'partita'; sys.exit(start())"
    asked = {"_PARTITA_COMPLETE": "complete_bash", "COMP_WORDS": "partita plan --obj"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**asked, "COMP_CWORD": "2", "PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.stdout.split(), done.stderr) == (["--objective"], "")


def test_a_reader_that_has_enough_is_no_failure() -> None:
    """Nothing is said, and the code is that of what is done."""
    code = "import sys; from partita.cli import start; sys.exit(start())"
    piped = subprocess.Popen(
        [sys.executable, "-c", code, "zoo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert piped.stdout is not None
    assert piped.stderr is not None
    piped.stdout.close()
    assert (piped.wait(), piped.stderr.read()) == (0, b"")
    piped.stderr.close()
