"""How much a verb loads before it does anything."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from partita.cli import interrupt
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


#: Sends a signal to itself as soon as a module is looked for, and goes on as if nothing were.
_STRUCK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
class Strike:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Strike())
sys.argv = ["partita", {verb!r}, "nothing.onnx", "--cluster", "nothing.toml"]
from partita.cli import start
sys.exit(start())
"""


_EARLY = "ended before all models were there\n"


@pytest.mark.parametrize(
    ("number", "verb", "module", "code", "told"),
    [
        (signal.SIGINT, "plan", "typer", 130, "partita: interrupted\n"),
        (signal.SIGINT, "plan", "numpy", 130, "partita: interrupted\n"),
        (signal.SIGTERM, "serve", "typer", 143, ""),
        (signal.SIGINT, "serve", "partita.cli.actions.serve", 0, _EARLY),
        (signal.SIGTERM, "serve", "uvicorn", 0, _EARLY),
        (signal.SIGTERM, "run", "partita.cli.actions.run", 143, ""),
    ],
)
def test_a_signal_in_an_import_ends_the_command_in_order(
    number: int, verb: str, module: str, code: int, told: str
) -> None:
    """However early it comes, there is no traceback, and the code is that of the signal."""
    script = _STRUCK.format(module=module, number=int(number), verb=verb)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (code, told, "")


def test_a_second_signal_is_not_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C twice ends a module that hangs while it is imported."""
    timers: list[float] = []
    monkeypatch.setattr(interrupt.signal, "setitimer", lambda which, s: timers.append(s))
    monkeypatch.setattr(interrupt, "_is_importing", lambda frame: True)
    interrupt._unwind(signal.SIGINT, None)
    interrupt._unwind(signal.SIGINT, None, is_again=True)
    assert timers == [interrupt._AGAIN_S] * 2
    with pytest.raises(KeyboardInterrupt):
        interrupt._unwind(signal.SIGINT, None)
    interrupt._unwind(signal.SIGTERM, None)
    monkeypatch.setattr(interrupt, "_is_importing", lambda frame: False)
    with pytest.raises(SystemExit) as caught:
        interrupt._unwind(signal.SIGTERM, None, is_again=True)
    assert caught.value.code == 143
