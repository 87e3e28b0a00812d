"""How much a verb loads before it does anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ask

HEAVY = ("scipy", "matplotlib", "torch")


def test_inspect_does_not_load_what_only_planning_needs() -> None:
    """``inspect`` loads neither SciPy nor Matplotlib, which take longer than its own work."""
    code = (
        "import sys; from partita.cli import main; main(['inspect', 'nothing.onnx', '--json']);"
        f"sys.exit(','.join(name for name in {HEAVY} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert '"kind": "model"' in done.stdout
    assert done.stderr.strip() == ""


def test_an_interrupt_is_told(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a command with one line and code 130."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("partita.cli.sources.load_plan", interrupt)
    answer = ask("check", "p.json")
    assert (answer.code, answer.message) == (130, "partita: interrupted")


def test_an_interrupt_while_modules_are_imported_is_told(tmp_path: Path) -> None:
    """Ctrl-C before the first command line is read is one line, too."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    code = "import sys; from partita.cli import start; sys.exit(start())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (130, "partita: interrupted\n")


def test_what_fails_by_an_interrupt_is_told_as_one(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaning up, or an import, may fail by Ctrl-C in turn."""

    def interrupt(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise BufferError("cannot close exported pointers exist")

    monkeypatch.setattr("partita.cli.sources.load_plan", interrupt)
    answer = ask("check", "p.json")
    assert (answer.code, answer.message) == (130, "partita: interrupted")
