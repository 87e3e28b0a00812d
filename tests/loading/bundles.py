"""Bundles of small models: written, asked, and changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort

from partita.graph import Graph
from partita.loading import Division, write_bundle
from partita.loading.bundle.manifest import MANIFEST, Manifest, dump_manifest

Change = Callable[[dict[str, Any]], object]


def ask(graph: Graph) -> dict[str, Any]:
    """Return one request."""
    rng = np.random.default_rng(1)
    return {
        name: rng.standard_normal(graph.tensors[name].shape, np.float32) for name in graph.inputs
    }


def run_whole(graph: Graph, feeds: dict[str, Any]) -> list[Any]:
    """Return what ONNX Runtime answers."""
    session = ort.InferenceSession(graph.to_model().SerializeToString())
    return list(session.run(None, feeds))


def split(graph: Graph, folder: Path, ends: Sequence[int], **more: Any) -> Path:
    """Write a bundle of one variant."""
    write_bundle(graph, [Division("s", tuple(ends), **more)], folder)
    return folder


def change_manifest(folder: Path, change: Change, *, honest: bool = True) -> None:
    """Change the first variant of a bundle's manifest, and its hash so that it fits."""
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    change(content["schemes"][0])
    text = json.dumps(content)
    if honest:
        text = dump_manifest(msgspec.json.decode(text, type=Manifest)).decode()
    path.write_text(text)
