"""All wheels that a worker on another machine needs, fetched here."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

from partita.errors import RunError
from partita.provision.target import Target
from partita.version import VERSION

#: Last lines of pip that say something; the rest is advice on itself.
_LINES = 2


def find_source() -> str:
    """Where this Partita was installed from, as ``pip`` takes it: a checkout, a wheel, or an index.

    >>> find_source() != ""
    True
    """
    try:
        text = importlib.metadata.distribution("partita").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    return str(json.loads(text)["url"]) if text else f"partita=={VERSION}"


def make_wheelhouse(folder: Path, target: Target, wheel: Path | None = None) -> None:
    """Fill an empty folder with Partita's wheel and those of all that a worker needs.

    Args:
        wheel: Partita's; one is made of what is installed by default.

    Raises:
        RunError: pip is missing, or finds no wheels for the target's platform.
    """
    if wheel is None:
        wheel = _make_wheel(folder, find_source())
    _pip(
        "download",
        "--only-binary=:all:",
        *(word for tag in target.platforms for word in ("--platform", tag)),
        *("--python-version", target.version),
        *("--dest", str(folder), str(wheel)),
    )


def _make_wheel(folder: Path, source: str) -> Path:
    """Partita's own wheel, in ``folder``.

    A checkout is copied first: a build leaves files there, and takes up those of the last one.
    """
    with tempfile.TemporaryDirectory(prefix="partita-") as made:
        place = urllib.parse.urlsplit(source)
        checkout = Path(urllib.request.url2pathname(place.path))
        if place.scheme == "file" and checkout.is_dir():
            copy = Path(made)
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(checkout / name, copy)
            shutil.copytree(checkout / "src" / "partita", copy / "src" / "partita")
            source = made
        _pip("wheel", "--no-deps", "--wheel-dir", str(folder), source)
    (wheel,) = folder.glob("partita-*.whl")
    return wheel


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        faults = [line.partition("ERROR: ")[2] for line in lines if line.startswith("ERROR: ")]
        why = "; ".join((faults or lines)[-_LINES:]) or f"exit code {done.returncode}"
        raise RunError(f"The wheels cannot be fetched: pip {words[0]}: {why}")
