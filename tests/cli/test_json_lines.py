"""With ``--log-format json`` whatever is told is lines of JSON."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from partita.cli.output import json_lines
from partita.cluster import dump_cluster, load_cluster
from partita.lab.ports import hold_addresses
from tests.cli.conftest import Ask
from tests.processes import PARTITA

PATIENCE_S = 60.0
_AS_JSON = ("--log-format", "json")


def read(lines: str) -> list[dict[str, Any]]:
    """The objects in lines that are all JSON."""
    return [json.loads(line) for line in lines.splitlines()]


def test_errors_are_lines(ask: Ask) -> None:
    """Of what is given wrongly and of what is not there, with the usual exit codes."""
    for words in (("run", "none.json"), ("run", "p.json", "--top"), ("run", "p.json", "--nothing")):
        done = ask(*words, *_AS_JSON)
        ((line,), told) = read(done.err), done.out
        assert (done.code, line["level"], told) == (2, "error", "")
    assert "--nothing" in line["message"]
    assert ask("run", "none.json", "--log-format=json", "--json").reply["error"]["kind"] == "plan"


def test_what_python_itself_would_print_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings, and failures of threads with their traces; afterwards they are its own again."""

    def fail() -> None:
        raise ValueError("so")

    hook = threading.excepthook
    with json_lines(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
        thread = threading.Thread(target=fail, name="reader")
        thread.start()
        thread.join()
    warned, failed = read(capsys.readouterr().err)
    assert "old" in warned["message"]
    assert failed["message"] == "thread reader failed"
    assert "ValueError: so" in failed["trace"]
    assert threading.excepthook is hook


@contextlib.contextmanager
def running(words: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on, in files ``NAME.out`` and ``NAME.err``; it ends in order."""
    out, err = (folder / f"{'-'.join(words[:3])}.{end}" for end in ("out", "err"))
    with out.open("w") as told, err.open("w") as log:
        command = [*PARTITA, *words, *_AS_JSON]
        process = subprocess.Popen(command, stdout=told, stderr=log, cwd=folder, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


def wait_for(path: Path, words: str, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What was told, once the words are among it."""
    while words not in path.read_text():
        assert process.poll() is None, path.read_text()
        time.sleep(0.05)
    return read(path.read_text())


@pytest.mark.slow
def test_services_tell_nothing_but_lines(folder: Path) -> None:
    """Workers, a service and a run, as processes, from their start to their end."""
    cluster = load_cluster(folder / "pair.toml")
    with contextlib.ExitStack() as stack:
        addresses = stack.enter_context(hold_addresses(2))
        devices = [replace(d, address=a) for d, a in zip(cluster.devices, addresses, strict=True)]
        placed = replace(cluster, devices=tuple(devices))
        (folder / "placed.toml").write_text(dump_cluster(placed))
        for name, address in zip("ab", addresses, strict=True):
            words = ["worker", "--name", name, "--cluster-name", "pair", "--listen", address]
            process = stack.enter_context(running([*words, "--store", name], folder))
            wait_for(folder / f"worker---name-{name}.err", "listens on", process)
        words = ["serve", "p.json", "--cluster", "placed.toml", "--listen", "127.0.0.1:0"]
        words += ["--grpc", "127.0.0.1:0", "--recover"]
        served = stack.enter_context(running(words, folder))
        (reply,) = wait_for(folder / "serve-p.json---cluster.out", "url", served)
        assert httpx.get(f"{reply['url']}/v2/health/ready").status_code == 200
        run = [*PARTITA, "run", "p.json", "--cluster", "placed.toml", "--check", *_AS_JSON]
        done = subprocess.run(run, capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S)
        assert done.returncode == 0
        assert read(done.stdout)[0]["passed"]
        assert "connecting to the workers" in {line["message"] for line in read(done.stderr)}
    files = [*folder.glob("*.err"), *folder.glob("*.out")]
    assert len(files) == 6
    for file in files:
        read(file.read_text())
    told = {line["message"] for line in read((folder / "worker---name-a.err").read_text())}
    assert "SIGTERM: the worker ends" in told
