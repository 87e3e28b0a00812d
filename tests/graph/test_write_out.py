"""Operators that are written in terms of others divide, and answer the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from partita.graph import load_graph
from tests.graph.rules.single import assert_boxes_equal, make_single
from tests.models import make_model, run_model

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 4, 6, 5), np.float32)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_who_lends_a_type_need_not_travel(kind: int) -> None:
    """A constant cast like a map meets every box of another map, and nobody reads the lender."""
    nodes = [
        helper.make_node("CastLike", ["half", "like"], ["number"]),
        helper.make_node("Mul", ["x", "number"], ["y"]),
    ]
    model = make_model(
        nodes,
        {"x": X.shape, "like": (1, 1, 9, 2)},
        ["y"],
        {"half": np.asarray(0.5, np.float64)},
        dtype=kind,
        opset=19,
    )
    graph = load_graph(model)
    assert {node.op for node in graph.nodes} == {"Mul"}
    assert graph.readers("like") == ()
    feeds = {"x": X.astype(helper.tensor_dtype_to_np_dtype(kind))}
    feeds["like"] = np.zeros((1, 1, 9, 2), feeds["x"].dtype)
    assert_boxes_equal(model, feeds, axes=[0, 1, 2, 3])


def test_a_map_is_cast_like_another() -> None:
    """What is cast is divided; the shape of the other map does not count."""
    model = make_single("CastLike", {"x": X, "like": np.zeros((7, 1, 3), np.int32)}, opset=15)
    feeds = {"x": X, "like": np.zeros((7, 1, 3), np.int32)}
    assert_boxes_equal(model, feeds, axes=[0, 1, 2, 3])


@pytest.mark.parametrize("attrs", [{}, {"k": -1}, {"k": 2, "dtype": TensorProto.INT32}])
def test_who_lends_a_shape_need_not_travel(attrs: dict[str, int]) -> None:
    """An identity matrix of a map's shape is a constant."""
    given = RNG.standard_normal((4, 6), np.float32)
    nodes = [
        helper.make_node("EyeLike", ["x"], ["eye"], **attrs),
        helper.make_node("Cast", ["eye"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["x", "floats"], ["y"]),
    ]
    model = make_model(nodes, {"x": given.shape}, ["y"])
    assert [node.op for node in load_graph(model).nodes] == ["Sub"]
    assert_boxes_equal(model, {"x": given}, axes=[0, 1])


def training_norm(opset: int, shape: tuple[int, ...], outputs: list[str]) -> onnx.ModelProto:
    """Return a batch normalisation in training mode; all but its data has a value per channel."""
    names = ["x", "scale", "bias", "mean", "variance"]
    node = helper.make_node(
        "BatchNormalization", names, outputs, training_mode=1, momentum=0.7, epsilon=1e-3
    )
    inputs = {name: shape if name == "x" else shape[1:2] for name in names}
    return make_model([node], inputs, [name for name in outputs if name], opset=opset)


@pytest.mark.parametrize("opset", [14, 15, 19])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 6, 5)])
@pytest.mark.parametrize("outputs", [["y"], ["y", "m", "v"], ["y", "", "v"]])
def test_training_norms_divide_by_channels(
    opset: int, shape: tuple[int, ...], outputs: list[str]
) -> None:
    """Means of the batch are written out; the arrays that a request feeds stay as they are."""
    model = training_norm(opset, shape, outputs)
    # The engine does not survive its own kernel without the running mean.
    whole = training_norm(opset, shape, ["y", "m", "v"])
    feeds = {"x": RNG.standard_normal(shape, np.float32)}
    for name in ("scale", "bias", "mean", "variance"):
        feeds[name] = RNG.uniform(0.5, 2, shape[1:2]).astype(np.float32)
    graph = load_graph(model)
    assert "BatchNormalization" not in {node.op for node in graph.nodes}
    before = {name: array.copy() for name, array in feeds.items()}
    answers = dict(zip(graph.outputs, run_model(graph.to_model(), feeds), strict=True))
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, before[name])
    expected = dict(zip(("y", "m", "v"), run_model(whole, before), strict=True))
    for name, ours in answers.items():
        np.testing.assert_allclose(ours, expected[name], rtol=1e-5, atol=1e-5)


def test_a_whole_training_norm_is_computed_in_boxes() -> None:
    """Any box of a training norm's map, mean and variance is the whole one's."""
    model = training_norm(15, X.shape, ["y", "m", "v"])
    feeds = {"x": X}
    for name in ("scale", "bias", "mean", "variance"):
        feeds[name] = RNG.uniform(0.5, 2, 4).astype(np.float32)
    assert_boxes_equal(model, feeds, axes=[0, 1, 2, 3])


def test_an_empty_part_of_a_split_is_a_constant() -> None:
    """A split with a part of no elements and a concatenation with it divide like others."""
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["a", "none"], axis=1),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Concat", ["b", "none"], ["y"], axis=1),
    ]
    model = make_model(nodes, {"x": X.shape}, ["y"], {"sizes": np.asarray([4, 0])})
    graph = load_graph(model)
    assert all(graph.tensors[name].shape[1] for layer in graph.layers for name in layer.outputs)
    assert_boxes_equal(model, {"x": X}, axes=[0, 1, 2, 3])


def test_a_model_without_standard_operators_is_cut() -> None:
    """A model that imports ``ai.onnx.ml`` alone is cut by standard operators all the same."""
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[2.0], offset=[1.0])
    given = RNG.standard_normal((6, 4), np.float32)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, given.shape) for n in "xy"]
    graph = helper.make_graph([node], "ml", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)])
    assert_boxes_equal(model, {"x": given}, axes=[0, 1])


@pytest.mark.parametrize(
    ("op", "outputs", "opset"), [("LayerNormalization", 3, 17), ("Dropout", 2, 13)]
)
def test_nodes_of_several_outputs_give_any_boxes(op: str, outputs: int, opset: int) -> None:
    """Boxes of several outputs need not lie in the same place, nor have the same shape."""
    scale = {"scale": np.ones(5, np.float32)} if op == "LayerNormalization" else {}
    model = make_single(op, {"x": X}, scale, outputs=outputs, opset=opset)
    assert_boxes_equal(model, {"x": X}, axes=[0, 1, 2])


def test_text_is_refused_by_its_name() -> None:
    """A tensor of text cannot travel; the line says what it is."""
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    node = helper.make_node("Identity", ["x"], ["y"])
    out = helper.make_tensor_value_info("y", TensorProto.STRING, [2])
    model = helper.make_model(helper.make_graph([node], "text", [text], [out]))
    with pytest.raises(Exception, match=r"^Tensor 'x' is of type string, allowed: float64, .*\.$"):
        load_graph(model)


def test_a_range_to_a_vector_of_one_element() -> None:
    """The engine takes the vector while it does not know its shape: behind a branch, here."""
    branch = helper.make_graph(
        [helper.make_node("Gather", ["x", "place"], ["picked"])],
        "branch",
        [],
        [helper.make_tensor_value_info("picked", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("If", ["yes"], ["stop"], then_branch=branch, else_branch=branch),
        helper.make_node("Range", ["zero", "stop", "one"], ["y"]),
    ]
    consts = {
        "yes": np.asarray(True),
        "place": np.asarray([1]),
        "zero": np.float32(0),
        "one": np.float32(1),
    }
    model = make_model(nodes, {"x": (3,)}, ["y"], consts)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, (5,)))
    assert_boxes_equal(model, {"x": np.asarray([0, 5, 0], np.float32)}, axes=[0])


def test_tiles_whose_times_are_fed() -> None:
    """Times that are not constant, of an output whose shape the file declares."""
    given = RNG.standard_normal((6, 4), np.float32)
    times = np.asarray([2, 3])
    model = make_single("Tile", {"x": given, "times": times})
    shape = helper.make_tensor_value_info("y0", TensorProto.FLOAT, (12, 12))
    model.graph.output[0].CopyFrom(shape)
    assert_boxes_equal(model, {"x": given, "times": times}, axes=[0, 1])
