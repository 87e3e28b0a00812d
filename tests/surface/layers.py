"""Which layers graphs are read as, and whether a change of that has another version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import onnx
from tests.models import light_model

from partita.graph import Graph, load_graph
from partita.graph.normalise import NORMALISER_VERSION
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import Policy
from partita.zoo import build_model

#: Chains, branches that meet, channels that change places, gates, and casts behind casts.
_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "squeezenet": lambda: light_model("squeezenet"),
    "shufflenet": lambda: light_model("shufflenet"),
    "mobilenet_v2": lambda: build_model("mobilenet_v2"),
    "efficientnet_b0": lambda: build_model("efficientnet_b0"),
    "separable": lambda: build_graph(
        Architecture.parse("4x2d-11", groups=4), Policy.parse("9,16,7", halves=True)
    ),
}


def describe_layers() -> dict[str, Any]:
    """Return the normaliser's version, and by model a digest of its layers and their operators."""
    models = {name: _digest(load_graph(make())) for name, make in _MODELS.items()}
    return {"version": NORMALISER_VERSION, "models": models}


def find_regrouped(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the models that have other layers under the same version.

    What is kept by a graph's hash, as profiles, names layers: another version is another hash.
    """
    if old["version"] != new["version"]:
        return []
    known = old["models"]
    return [name for name, digest in new["models"].items() if known.get(name, digest) != digest]


def _digest(graph: Graph) -> str:
    layers = [(one.name, [graph.nodes[place].op for place in one.nodes]) for one in graph.layers]
    return hashlib.sha256(repr(layers).encode()).hexdigest()[:16]
