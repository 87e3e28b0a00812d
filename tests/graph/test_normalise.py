"""The normalised graph computes what the file computes, in fewer forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from partita.graph import load_graph
from tests.models import (
    SMALL_LIGHT_MODELS,
    Array,
    before_softmax,
    light_model,
    make_model,
    random_inputs,
    relative_difference,
    run_model,
)

RNG = np.random.default_rng(5)
make_node = helper.make_node


def normal(*shape: int) -> Array:
    """Return standard normal float32 values."""
    return RNG.standard_normal(shape, np.float32)


def ints(*values: int) -> Array:
    """Return an int64 vector."""
    return np.array(values, np.int64)


def floats(*values: float) -> Array:
    """Return a float32 vector."""
    return np.array(values, np.float32)


BATCH_NORM = {"s": floats(1, -2, 0.5, 0), "b": floats(1, 2, 3, 4), "m": floats(0, 1, -1, 2),
              "v": floats(1, 0.5, 0.01, 2)}  # fmt: skip

#: Name, opset, node (one input ``x`` of 1x4x6x5), constants.
OLD_FORMS: list[tuple[str, int, list[str], list[str], dict[str, Any], dict[str, Array]]] = [
    ("Slice", 7, ["x"], ["y"], {"starts": [1, 0], "ends": [5, 4], "axes": [2, 3]}, {}),
    ("Slice", 10, ["x", "s", "e", "a", "t"], ["y"], {},
     {"s": ints(5, 0), "e": ints(-100, 4), "a": ints(2, 3), "t": ints(-2, 1)}),
    ("Pad", 7, ["x"], ["y"], {"mode": "reflect", "pads": [0, 0, 1, 2, 0, 0, 2, 1]}, {}),
    ("Clip", 7, ["x"], ["y"], {"min": -0.5, "max": 0.5}, {}),
    ("Clip", 11, ["x", "lo"], ["y"], {}, {"lo": np.full((), 0.1, np.float32)}),
    ("Squeeze", 7, ["x"], ["y"], {"axes": [0]}, {}),
    ("Unsqueeze", 7, ["x"], ["y"], {"axes": [0]}, {}),
    ("Split", 7, ["x"], ["y", "z"], {"axis": 1, "split": [1, 3]}, {}),
    ("Split", 13, ["x"], ["y", "z"], {"axis": 1}, {}),
    ("ReduceSum", 7, ["x"], ["y"], {"axes": [2, 3]}, {}),
    ("ReduceMean", 13, ["x"], ["y"], {"axes": [-1], "keepdims": 0}, {}),
    ("Softmax", 7, ["x"], ["y"], {"axis": 1}, {}),
    ("Softmax", 11, ["x"], ["y"], {}, {}),
    ("LogSoftmax", 11, ["x"], ["y"], {"axis": 2}, {}),
    ("Hardmax", 7, ["x"], ["y"], {"axis": 1}, {}),
    ("Upsample", 7, ["x"], ["y"], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 2.0]}, {}),
    ("Upsample", 9, ["x", "s"], ["y"], {"mode": "linear"}, {"s": floats(1, 1, 2, 2)}),
    ("Upsample", 9, ["x", "s"], ["y"], {"mode": "nearest"}, {"s": floats(1, 1, 1.5, 2.3)}),
    ("Resize", 10, ["x", "s"], ["y"], {"mode": "linear"}, {"s": floats(1, 1, 1.5, 0.7)}),
    ("Resize", 10, ["x", "s"], ["y"], {"mode": "nearest"}, {"s": floats(1, 1, 0.5, 0.7)}),
    ("Resize", 10, ["x", "s"], ["y"], {"mode": "nearest"}, {"s": floats(1, 1, 0.5, 1.7)}),
    ("Resize", 11, ["x", "r", "s"], ["y"],
     {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
     {"r": floats(), "s": floats(1, 1, 2, 2)}),
    ("BatchNormalization", 7, ["x", "s", "b", "m", "v"], ["y"], {}, BATCH_NORM),
    ("Dropout", 7, ["x"], ["y"], {}, {}),
    ("Dropout", 12, ["x", "r"], ["y", "mask"], {}, {"r": np.full((), 0.3, np.float32)}),
    ("MaxPool", 8, ["x"], ["y"], {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
    ("MaxPool", 10, ["x"], ["y"], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, {}),
    ("AveragePool", 7, ["x"], ["y"], {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}, {}),
    ("AveragePool", 7, ["x"], ["y"],
     {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER", "count_include_pad": 1},
     {}),
    ("Conv", 7, ["x", "w"], ["y"], {"auto_pad": "VALID"}, {"w": normal(3, 4, 2, 2)}),
    ("Conv", 7, ["x", "w"], ["y"], {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
     {"w": normal(3, 4, 2, 2)}),
    ("ConvTranspose", 7, ["x", "w"], ["y"], {"strides": [2, 2], "output_shape": [12, 10]},
     {"w": normal(4, 3, 3, 3)}),
    ("ConvTranspose", 11, ["x", "w"], ["y"],
     {"strides": [2, 2], "output_shape": [12, 10], "auto_pad": "SAME_UPPER"},
     {"w": normal(4, 3, 3, 3)}),
    ("ConvTranspose", 11, ["x", "w"], ["y"],
     {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_padding": [1, 1]},
     {"w": normal(4, 3, 3, 3)}),
    ("PRelu", 7, ["x", "s"], ["y"], {}, {"s": normal(4, 1, 1)}),
    ("Pow", 7, ["x", "s"], ["y"], {}, {"s": floats(2)}),
    ("LRN", 7, ["x"], ["y"], {"size": 3}, {}),
    ("Gather", 7, ["x", "k"], ["y"], {"axis": 2}, {"k": ints(1, 3)}),
    ("DepthToSpace", 7, ["x"], ["y"], {"blocksize": 2}, {}),
    ("InstanceNormalization", 7, ["x", "s", "b"], ["y"], {}, {"s": normal(4), "b": normal(4)}),
    ("Flatten", 7, ["x"], ["y"], {"axis": 2}, {}),
    ("Tile", 7, ["x", "k"], ["y"], {}, {"k": ints(1, 2, 1, 1)}),
    ("Expand", 8, ["x", "k"], ["y"], {}, {"k": ints(3, 4, 6, 5)}),
    ("LpPool", 7, ["x"], ["y"], {"kernel_shape": [2, 2]}, {}),
]  # fmt: skip


@pytest.mark.parametrize("form", OLD_FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def test_old_forms_keep_their_meaning(form: tuple[Any, ...]) -> None:
    """Every operator form since opset 7 gives the file's answer and the inferred shapes."""
    op, opset, inputs, outputs, attrs, constants = form
    # A first Neg keeps idle operators from being the whole model.
    nodes = [
        make_node("Neg", ["in"], ["x"]),
        make_node(op, inputs, outputs, **attrs),
        make_node("Abs", ["y"], ["out"]),
    ]
    model = make_model(nodes, {"in": (1, 4, 6, 5)}, ["out"], constants, opset=opset)
    graph = load_graph(model)
    feeds = random_inputs(model)
    ours, theirs = run_model(graph.to_model(), feeds), run_model(model, feeds)
    assert relative_difference(ours, theirs) <= 1e-5
    assert graph.tensors["out"].shape == theirs[0].shape
    assert not any("auto_pad" in node.attrs for node in graph.nodes)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 15, 18, 20, 22])
def test_every_opset_loads(opset: int) -> None:
    """Old models are raised to opset 18, newer ones keep theirs."""
    model = make_model([make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"], opset=opset)
    assert load_graph(model).opset == max(opset, 18)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_LIGHT_MODELS)
def test_light_models_keep_their_answer(name: str) -> None:
    """Published architectures give the file's answer to 1e-5, with every shape known."""
    model = before_softmax(light_model(name))
    graph = load_graph(model)
    feeds = random_inputs(model)
    ours, theirs = run_model(graph.to_model(), feeds), run_model(model, feeds)
    assert relative_difference(ours, theirs) <= 1e-5
    assert all(min(spec.shape) > 0 for spec in graph.tensors.values())
    assert not {node.op for node in graph.nodes} & {"Dropout", "Identity", "Constant", "Unsqueeze"}


@pytest.mark.parametrize("core", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_and_affine_fold_into_the_convolution(core: str, bias: bool) -> None:
    """Normalisation, scale and shift after a convolution become its weights."""
    channels = 4
    weight = normal(channels, 4, 3, 3) if core == "Conv" else normal(4, 2, 3, 3)
    group = 1 if core == "Conv" else 2
    nodes = [
        make_node(core, ["x", "w", "k"] if bias else ["x", "w"], ["c"], group=group),
        make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        make_node("Mul", ["n", "p"], ["q"]),
        make_node("Sub", ["one", "q"], ["y"]),
    ]
    constants = BATCH_NORM | {"w": weight, "p": normal(channels, 1, 1), "one": floats(1)}
    constants |= {"k": normal(channels)} if bias else {}
    model = make_model(nodes, {"x": (2, 4, 6, 5)}, ["y"], constants)
    graph = load_graph(model)
    assert [node.op for node in graph.nodes] == [core]
    feeds = random_inputs(model)
    ours, theirs = run_model(graph.to_model(), feeds), run_model(model, feeds)
    assert relative_difference(ours, theirs) <= 1e-6


@pytest.mark.parametrize("case", ["second reader", "graph output", "varies along rows"])
def test_batch_norm_is_not_folded_where_the_value_is_needed(case: str) -> None:
    """A convolution's own output that somebody else reads stays what it is."""
    nodes = [
        make_node("Conv", ["x", "w"], ["c"]),
        make_node("Mul", ["c", "p"], ["n"]),
        make_node("Relu", ["n"], ["y"]),
    ]
    outputs = ["y", "c"] if case == "graph output" else ["y"]
    if case == "second reader":
        nodes.append(make_node("Exp", ["c"], ["z"]))
        outputs.append("z")
    scale = normal(4, 1) if case == "varies along rows" else normal(4, 1, 1)
    model = make_model(nodes, {"x": (1, 4, 4, 4)}, outputs, {"w": normal(4, 4, 1, 1), "p": scale})
    graph = load_graph(model)
    assert "Mul" in [node.op for node in graph.nodes]
    feeds = random_inputs(model)
    ours, theirs = run_model(graph.to_model(), feeds), run_model(model, feeds)
    assert relative_difference(ours, theirs) <= 1e-6


@pytest.mark.parametrize("core", ["Conv", "BatchNormalization"])
def test_what_would_overflow_is_not_folded(core: str) -> None:
    """The file's numbers are finite one after the other, so its answers may be: weights stay so."""
    reads = {"Conv": ["x", "w"], "BatchNormalization": ["x", "s", "b", "m", "v"]}[core]
    constants = {
        "w": np.full((4, 4, 1, 1), 1e25, np.float32),
        "p": np.full((4, 1, 1), 1e20, np.float32),
    }
    constants |= BATCH_NORM | {"s": np.full(4, 1e25, np.float32)}
    nodes = [make_node(core, reads, ["c"]), make_node("Mul", ["c", "p"], ["y"])]
    graph = load_graph(make_model(nodes, {"x": (1, 4, 4, 4)}, ["y"], constants))
    assert [node.op for node in graph.nodes] == [core, "Mul"]
    assert all(np.isfinite(array).all() for array in graph.constants.values())


def test_shared_weight_is_folded_for_its_own_reader_only() -> None:
    """Two convolutions with one weight, one of them normalised, both stay right."""
    nodes = [
        make_node("Conv", ["x", "w"], ["c"]),
        make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
        make_node("Conv", ["x", "w"], ["z"]),
    ]
    constants = BATCH_NORM | {"w": normal(4, 4, 1, 1)}
    model = make_model(nodes, {"x": (1, 4, 3, 3)}, ["y", "z"], constants)
    feeds = random_inputs(model)
    ours = run_model(load_graph(model).to_model(), feeds)
    assert relative_difference(ours, run_model(model, feeds)) <= 1e-6


def test_shape_arithmetic_folds() -> None:
    """Shape, Gather, Concat and Reshape become one Reshape once the shapes are known."""
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", "zero"], ["n"], axis=0),
        make_node("Concat", ["n", "rest"], ["t"], axis=0),
        make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = {"zero": ints(0), "rest": ints(-1)}
    model = make_model(nodes, {"x": ("n", 3, 4)}, ["y"], constants)
    graph = load_graph(model, shapes={"x": (2, 3, 4)})
    assert [node.op for node in graph.nodes] == ["Reshape"]
    assert graph.tensors["y"].shape == (2, 12)


def test_idle_nodes_before_an_output_give_it_their_name() -> None:
    """A trailing Identity goes, and the output keeps the name that users know."""
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Identity", ["r"], ["y"])]
    graph = load_graph(make_model(nodes, {"x": (2,)}, ["y"]))
    assert [(node.op, node.outputs) for node in graph.nodes] == [("Relu", ("y",))]


def test_output_that_is_constant_or_an_input_still_comes() -> None:
    """Outputs that nothing has to be computed for are kept as nodes of their own."""
    nodes = [
        make_node("Identity", ["x"], ["same"]),
        make_node("Add", ["c", "c"], ["fixed"]),
        make_node("Relu", ["x"], ["y"]),
    ]
    model = make_model(nodes, {"x": (2,)}, ["same", "fixed", "y"], {"c": floats(1, 2)})
    graph = load_graph(model)
    feeds = random_inputs(model)
    ours = run_model(graph.to_model(), feeds)
    assert relative_difference(ours, run_model(model, feeds)) == 0
    assert {layer.name: layer.barrier for layer in graph.layers} == {
        "same": False, "fixed": True, "y": False,
    }  # fmt: skip


def test_loading_twice_gives_the_same_graph() -> None:
    """Normalisation is deterministic: names, order and hash repeat."""
    first, second = (load_graph(light_model("shufflenet")) for _ in range(2))
    assert first.hash == second.hash
    assert [layer.name for layer in first.layers] == [layer.name for layer in second.layers]


def test_hash_sees_one_changed_weight() -> None:
    """Another weight is another model."""
    weight = normal(4, 4, 1, 1)
    nodes = [make_node("Conv", ["x", "w"], ["y"])]
    first = load_graph(make_model(nodes, {"x": (1, 4, 3, 3)}, ["y"], {"w": weight}))
    weight = weight.copy()
    weight[0, 0, 0, 0] += 1
    second = load_graph(make_model(nodes, {"x": (1, 4, 3, 3)}, ["y"], {"w": weight}))
    assert first.hash != second.hash
