"""Processes of the command line."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: Of this Python, with the checkout's own code; a command's words follow.
PARTITA = (sys.executable, "-c", "from partita.cli import start; raise SystemExit(start())")
_PATIENCE_S = 30.0


@contextlib.contextmanager
def worker(name: str, folder: Path, *words: str) -> Iterator[Path]:
    """A worker with a store of its own; its log."""
    log = folder / f"{name}.log"
    words = ("worker", *words, "--store", str(folder / name))
    with open(log, "wb") as file:
        process = subprocess.Popen([*PARTITA, *words], stderr=file)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)
