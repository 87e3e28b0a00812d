"""Bundles with something changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from partita.loading.bundle.manifest import MANIFEST, Manifest, dump_manifest

Change = Callable[[dict[str, Any]], object]


def change_manifest(folder: Path, change: Change, *, honest: bool = True) -> None:
    """Change the first scheme of a bundle's manifest, and its hash so that it fits."""
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    change(content["schemes"][0])
    text = json.dumps(content)
    if honest:
        text = dump_manifest(msgspec.json.decode(text, type=Manifest)).decode()
    path.write_text(text)
