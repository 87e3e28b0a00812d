"""Bundles that could not be read again, and manifests that say nothing sensible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from partita.errors import BundleError
from partita.loading import Division, load_bundle, write_bundle
from partita.loading.bundle.manifest import Manifest, dump_manifest
from tests.cost.fakes import conv_graph
from tests.loading.bundles import split


@pytest.mark.parametrize(
    ("divisions", "told"),
    [
        ([], "at least one"),
        ([Division("../a", (3,))], "'../a' is no name; allowed: 1 to 64"),
        ([Division("/tmp/a", (3,))], "is no name"),
        ([Division("", (3,))], "is no name"),
        ([Division("a\0b", (3,))], "is no name"),
        ([Division(7, (3,))], "7 is no name"),  # type: ignore[arg-type]
        ([Division("a", (3,)), Division("a", (3,))], "Two divisions are called 'a'"),
        ([Division("a", (3,), threads=0)], "threads: got 0; allowed: 1 to 256"),
        ([Division("a", (3,), loaders=257)], "loaders: got 257; allowed"),
        ([Division("a", (1.5, 3))], "allowed: whole numbers"),  # type: ignore[arg-type]
    ],
)
def test_divisions_that_could_not_be_read_again(
    tmp_path: Path, divisions: list[Division], told: str
) -> None:
    """They are refused before anything is written; a bundle that is there stays."""
    folder = split(conv_graph(), tmp_path / "b", (3,))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BundleError, match=told):
        write_bundle(conv_graph(), divisions, folder)
    assert sorted(tmp_path.rglob("*")) == before
    with load_bundle(folder) as session:
        session.wait()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content["schemes"][0].update(children=[]), "it has no children"),
        (lambda content: content["schemes"].append(content["schemes"][0]), "two have one name"),
    ],
)
def test_manifests_that_say_nothing_sensible(tmp_path: Path, change: Any, told: str) -> None:
    """Also where their hash is right."""
    folder = split(conv_graph(), tmp_path / "b", (3,))
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_bytes(dump_manifest(msgspec.json.decode(json.dumps(content), type=Manifest)))
    with pytest.raises(BundleError, match=told):
        load_bundle(folder)
