"""Profiles whose figures can be followed by hand."""

from __future__ import annotations

import itertools

import numpy as np
from onnx import TensorProto, helper

from partita.graph import Graph, load_graph
from partita.profile import LayerProfile, Profile, RunCost, Sample, WireCost
from tests.models import make_model

#: Seconds of a layer for all its rows, and the share that does not depend on rows.
WHOLE_S, FIXED = 0.010, 0.1


def conv_graph(rows: int = 16, layers: int = 3) -> Graph:
    """Return 3x3 convolutions in a row, ``c0``, ``c1`` and so on, all of 4 channels."""
    rng = np.random.default_rng(0)
    nodes, constants = [], {}
    for place in range(layers):
        source, target = f"t{place}", f"t{place + 1}"
        nodes.append(
            helper.make_node(
                "Conv",
                [source, f"w{place}"],
                [target],
                name=f"c{place}",
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
            )
        )
        constants[f"w{place}"] = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
    model = make_model(nodes, {"t0": (1, 4, rows, 16)}, [f"t{layers}"], constants)
    return load_graph(model)


def skip_graph() -> Graph:
    """Return three convolutions of 8 channels; the last adds what the first made."""
    rng = np.random.default_rng(0)
    names = ["t0", "t1", "t2", "t3"]
    nodes = [
        helper.make_node("Conv", [read, f"w{place}"], [made], name=f"c{place}")
        for place, (read, made) in enumerate(itertools.pairwise(names))
    ]
    nodes.append(helper.make_node("Add", ["t3", "t1"], ["sum"], name="add"))
    constants = {f"w{k}": rng.standard_normal((8, 8, 1, 1)).astype(np.float32) for k in range(3)}
    return load_graph(make_model(nodes, {"t0": (1, 8, 16, 16)}, ["sum"], constants))


def sliced_graph() -> Graph:
    """Return two convolutions between which channels are cut in halves that are added."""
    rng = np.random.default_rng(0)
    axes = {"starts": [0], "ends": [8], "full": [16], "axes": [1]}
    constants = {
        "w0": rng.standard_normal((16, 16, 1, 1)).astype(np.float32),
        "w1": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
    } | {name: np.array(value, np.int64) for name, value in axes.items()}
    nodes = [
        helper.make_node("Conv", ["t0", "w0"], ["t1"], name="c0"),
        helper.make_node("Slice", ["t1", "starts", "ends", "axes"], ["t2"], name="half"),
        helper.make_node("Slice", ["t1", "ends", "full", "axes"], ["t4"], name="other"),
        helper.make_node("Conv", ["t2", "w1"], ["t3"], name="c1"),
        helper.make_node("Add", ["t3", "t4"], ["sum"], name="add"),
    ]
    return load_graph(make_model(nodes, {"t0": (1, 16, 16, 16)}, ["sum"], constants))


def straight_profile(graph: Graph, runs: RunCost | None = None) -> Profile:
    """Return a profile in which every layer takes ``WHOLE_S * (FIXED + (1 - FIXED) * share)``."""
    layers = {}
    for layer in graph.layers:
        full = graph.tensors[layer.outputs[0]].shape[2]
        samples = tuple(
            Sample(rows, WHOLE_S * (FIXED + (1 - FIXED) * rows / full), 5, 0.0)
            for rows in sorted({1, full // 4, full // 2, full})
        )
        layers[layer.name] = LayerProfile(layer.kind, full, False, samples)
    return Profile(
        device="fake",
        machine="none",
        threads=1,
        engine="none",
        provider="CPUExecutionProvider",
        precision="float32",
        model=graph.name,
        model_hash=graph.hash,
        layers=layers,
        runs=runs or RunCost(),
        wires={"raw": WireCost(0.0, 0.0, 0.0, 0.0), "uint8": WireCost(1e-3, 1e-6, 2e-3, 2e-6)},
    )


def photo_graph(dtype: int) -> Graph:
    """Return a convolution of floats over a picture of another type, which is cast first."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Cast", ["x"], ["floats"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Conv", ["floats", "w"], ["y"], name="conv"),
    ]
    weights = {"w": rng.standard_normal((16, 3, 3, 3)).astype(np.float32)}
    inputs = {"x": (1, 3, 16, 16)}
    kind = TensorProto.FLOAT
    return load_graph(make_model(nodes, inputs, ["y"], weights, dtype=dtype, output_dtype=kind))
