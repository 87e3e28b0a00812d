"""Results on disk, so that an interrupted study goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from partita.errors import InputError
from partita.files import make_folder, write_whole

Kept = TypeVar("Kept")
#: Packages whose code decides results; a change to one of them makes old results void.
_PACKAGES = (
    "planners",
    "cost",
    "compile",
    "quantisation",
    "graph",
    "simulation",
    "execution",
    "cluster",
    "zoo",
    "reproduce",
)


class ResultCache:
    """A folder of JSON files, one per result, named by a digest of what it is the result of.

    Args:
        folder: Where; made when the first result is kept. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: Mapping[str, object], kind: type[Kept]) -> Kept | None:
        """The result of ``key``; None where none is kept or its file is damaged.

        Raises:
            InputError: None is kept, and the folder cannot be written to.
        """
        path = self._path(key)
        if path is None:
            return None
        try:
            result = json.loads(path.read_bytes())["result"]
            return msgspec.convert(result, kind, str_keys=True)  # as JSON has no others
        except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
            with _told(path.parent):
                make_folder(path.parent)
            return None

    def put(self, key: Mapping[str, object], result: object) -> None:
        """Keep a result: its file appears whole or not at all.

        Raises:
            InputError: The folder cannot be written to.
        """
        path = self._path(key)
        if path is None:
            return
        content = {"key": dict(key), "result": msgspec.to_builtins(result)}
        with _told(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(content, indent=1, default=str).encode())

    def _path(self, key: Mapping[str, object]) -> Path | None:
        if self.folder is None:
            return None
        text = json.dumps(dict(key), sort_keys=True, default=str)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn the system's refusal of a folder into our own."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Results cannot be kept in '{folder}': {error.strerror}. Give --cache another folder.",
            subject=str(folder),
        ) from error


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of the code that decides results."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
