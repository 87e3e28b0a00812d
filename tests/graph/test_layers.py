"""Layers: what is fused, what is not, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from partita.errors import ModelError
from partita.graph import Graph, Window, load_graph
from partita.graph.whole import WholeModel
from partita.zoo import build_model
from tests.models import (
    SMALL_LIGHT_MODELS,
    Array,
    light_model,
    make_model,
    random_inputs,
    relative_difference,
    run_model,
)

make_node = helper.make_node
WEIGHTS = {
    "w": np.random.default_rng(0).standard_normal((4, 4, 1, 1), np.float32),
    "v": np.random.default_rng(1).standard_normal((4, 4, 3, 3), np.float32),
}


def load(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str] = ("y",), **constants: Array
) -> Graph:
    """Return the graph of ``nodes`` over one input ``x`` of 1x4x6x6."""
    used = {name for node in nodes for name in node.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in used}
    return load_graph(make_model(nodes, {"x": (1, 4, 6, 6)}, outputs, weights | constants))


def operators(graph: Graph) -> list[list[str]]:
    """Return the operators of each layer."""
    return [[graph.nodes[place].op for place in layer.nodes] for layer in graph.layers]


def test_activation_and_residual_are_fused() -> None:
    """A residual that the layer's input was computed from joins the layer."""
    graph = load(
        [
            make_node("Relu", ["x"], ["a"]),
            make_node("Conv", ["a", "w"], ["b"]),
            make_node("Relu", ["b"], ["c"]),
            make_node("Conv", ["c", "w"], ["d"]),
            make_node("Add", ["d", "a"], ["e"]),
            make_node("Relu", ["e"], ["y"]),
        ]
    )
    assert operators(graph) == [["Relu"], ["Conv", "Relu"], ["Conv", "Add", "Relu"]]
    assert graph.layers[2].inputs == ("c", "a")
    assert graph.layers[2].outputs == ("y",)


def test_operand_computed_beside_is_not_fused() -> None:
    """A sum of two branches belongs to neither: it would wait for a stale operand."""
    graph = load(
        [
            make_node("Conv", ["x", "w"], ["a"]),
            make_node("Conv", ["x", "w"], ["b"]),
            make_node("Add", ["a", "b"], ["c"]),
            make_node("Relu", ["c"], ["y"]),
        ]
    )
    assert operators(graph) == [["Conv"], ["Conv"], ["Add", "Relu"]]


def test_input_of_the_model_may_be_a_late_operand() -> None:
    """A model input is there from the start, so that it may join any layer."""
    nodes = [make_node("Conv", ["x", "w"], ["a"]), make_node("Add", ["a", "z"], ["y"])]
    model = make_model(nodes, {"x": (1, 4, 6, 6), "z": (1, 4, 6, 6)}, ["y"], {"w": WEIGHTS["w"]})
    assert operators(load_graph(model)) == [["Conv", "Add"]]


@pytest.mark.parametrize("outputs", [["y"], ["y", "a"]])
def test_value_with_other_readers_ends_its_layer(outputs: list[str]) -> None:
    """Nothing is fused after a tensor that another layer or the user reads."""
    nodes = [
        make_node("Conv", ["x", "w"], ["a"]),
        make_node("Relu", ["a"], ["b"]),
        make_node("Conv", ["b", "w"], ["y"]),
    ]
    if outputs == ["y"]:
        nodes.append(make_node("MaxPool", ["a"], ["z"], kernel_shape=[2, 2]))
        outputs = ["y", "z"]
    assert operators(load(nodes, outputs))[:2] == [["Conv"], ["Relu"]]


def test_small_diamonds_are_fused() -> None:
    """``x * sigmoid(x)`` and the hard swish of exporters join their convolution whole."""
    graph = load(
        [
            make_node("Conv", ["x", "w"], ["a"]),
            make_node("Sigmoid", ["a"], ["b"]),
            make_node("Mul", ["a", "b"], ["c"]),
            make_node("Conv", ["c", "w"], ["d"]),
            make_node("HardSigmoid", ["d"], ["e"]),
            make_node("Relu", ["e"], ["f"]),
            make_node("Mul", ["f", "d"], ["y"]),
        ]
    )
    assert operators(graph) == [["Conv", "Sigmoid", "Mul"], ["Conv", "HardSigmoid", "Relu", "Mul"]]


def test_gate_stands_alone() -> None:
    """Squeeze and excite: the gate's product has another shape than the gate, and stays apart."""
    graph = load(
        [
            make_node("Conv", ["x", "w"], ["a"]),
            make_node("Relu", ["a"], ["b"]),
            make_node("GlobalAveragePool", ["b"], ["c"]),
            make_node("Conv", ["c", "w"], ["d"]),
            make_node("Sigmoid", ["d"], ["e"]),
            make_node("Mul", ["b", "e"], ["y"]),
        ]
    )
    assert [layer.kind for layer in graph.layers] == ["Conv", "GlobalAveragePool", "Conv", "Mul"]


def test_broadcast_to_a_larger_shape_is_not_fused() -> None:
    """A follower keeps the core's shape; one that grows it is a layer of its own."""
    nodes = [make_node("GlobalAveragePool", ["x"], ["a"]), make_node("Add", ["a", "k"], ["y"])]
    graph = load(nodes, k=np.zeros((1, 4, 2, 2), np.float32))
    assert operators(graph) == [["GlobalAveragePool"], ["Add"]]


def test_unfolded_batch_norm_is_a_follower() -> None:
    """After a pooling there is no weight to fold into: normalisation is a pointwise follower."""
    nodes = [
        make_node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
        make_node("BatchNormalization", ["a", "k", "k", "k", "k"], ["y"]),
    ]
    assert operators(load(nodes, k=np.ones(4, np.float32))) == [["MaxPool", "BatchNormalization"]]


def test_several_live_outputs_end_a_layer() -> None:
    """Nothing is fused to a layer with more than one output."""
    nodes = [
        make_node("Split", ["x", "k"], ["a", "b"], axis=1),
        make_node("Relu", ["a"], ["y"]),
        make_node("Exp", ["b"], ["z"]),
    ]
    graph = load(nodes, ["y", "z"], k=np.array([1, 3], np.int64))
    assert operators(graph) == [["Split"], ["Relu"], ["Exp"]]
    assert graph.layers[0].outputs == ("a", "b")


def test_layer_numbers_of_a_convolution() -> None:
    """Work, bytes and window of a strided, grouped, padded convolution are counted by hand."""
    node = make_node(
        "Conv", ["x", "g", "k"], ["y"], name="core", group=2, strides=[2, 1], pads=[1, 0, 2, 0]
    )
    model = make_model(
        [node], {"x": (3, 4, 9, 6)}, ["y"],
        {"g": np.zeros((6, 2, 3, 2), np.float32), "k": np.zeros(6, np.float32)},
    )  # fmt: skip
    layer = load_graph(model).layer("core")
    assert layer.macs == 3 * 6 * 5 * 5 * 2 * 3 * 2
    assert layer.weight_bytes == 4 * (6 * 2 * 3 * 2 + 6)
    assert layer.output_bytes == 4 * 3 * 6 * 5 * 5
    assert layer.window == Window((3, 2), (2, 1), (1, 1), (1, 0), (2, 0), 2)


@pytest.mark.parametrize(
    ("node", "shapes", "macs"),
    [
        (make_node("Gemm", ["x", "w"], ["y"], transB=1), ((2, 5), (7, 5)), 2 * 5 * 7),
        (make_node("Gemm", ["x", "w"], ["y"], transA=1), ((5, 2), (5, 7)), 2 * 5 * 7),
        (make_node("MatMul", ["x", "w"], ["y"]), ((3, 2, 5), (5, 7)), 3 * 2 * 5 * 7),
        (make_node("MatMul", ["x", "x"], ["y"]), ((3, 5, 5), ()), 3 * 5 * 5 * 5),
        (make_node("MatMul", ["x", "w"], ["y"]), ((5,), (5, 7)), 5 * 7),
        (make_node("ConvTranspose", ["x", "w"], ["y"]), ((1, 4, 5), (4, 6, 3)), 4 * 5 * 6 * 3),
    ],
)
def test_work_of_products(
    node: onnx.NodeProto, shapes: tuple[tuple[int, ...], tuple[int, ...]], macs: int
) -> None:
    """Matrix products, batched or between activations, and transposed convolutions are counted."""
    constants = {"w": np.zeros(shapes[1], np.float32)} if "w" in node.input else {}
    assert load_graph(make_model([node], {"x": shapes[0]}, ["y"], constants)).macs == macs


def test_published_counts() -> None:
    """ResNet-50 has 25,557,032 parameters and 4.089e9 multiply-accumulates (He et al. 2016)."""
    graph = load_graph(light_model("resnet50"))
    assert graph.parameters == 25_557_032
    assert round(graph.macs / 1e9, 3) == 4.089
    assert len(graph.layers) == 62


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_LIGHT_MODELS)
def test_layers_divide_the_nodes(name: str) -> None:
    """Every node is in one layer, and every layer reads only what earlier layers wrote."""
    graph = load_graph(light_model(name))
    assert [place for layer in graph.layers for place in layer.nodes] == list(
        range(len(graph.nodes))
    )
    assert len({layer.name for layer in graph.layers}) == len(graph.layers)
    known = set(graph.inputs)
    for layer in graph.layers:
        assert known.issuperset(layer.inputs)
        known.update(layer.outputs)
    assert known.issuperset(graph.outputs)


def test_names_are_unique_even_if_the_file_repeats_them() -> None:
    """Nodes of one name become layers of different names; nameless ones take their output's."""
    graph = load(
        [
            make_node("MaxPool", ["x"], ["a"], name="pool", kernel_shape=[2, 2]),
            make_node("MaxPool", ["a"], ["b"], name="pool", kernel_shape=[2, 2]),
            make_node("MaxPool", ["b"], ["y"], kernel_shape=[2, 2]),
        ]
    )
    assert [layer.name for layer in graph.layers] == ["pool", "pool#2", "y"]


def test_cuts_name_what_crosses() -> None:
    """A skip crosses every cut that it spans, and is counted once."""
    graph = load(
        [
            make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3]),
            make_node("Conv", ["a", "w"], ["b"]),
            make_node("GlobalMaxPool", ["b"], ["c"]),
            make_node("Conv", ["c", "w"], ["d"]),
            make_node("Mul", ["a", "d"], ["y"]),
        ]
    )
    cuts = graph.cuts()
    assert [cut.position for cut in cuts] == [0, 1, 2, 3, 4, 5]
    assert [set(cut.tensors) for cut in cuts] == [
        {"x"}, {"a"}, {"a", "b"}, {"a", "c"}, {"a", "d"}, {"y"},
    ]  # fmt: skip
    assert [cut.bytes for cut in cuts] == [576, 256, 512, 272, 272, 256]


def test_outputs_cross_every_later_cut() -> None:
    """An output made early is live to the end; an input read late is live from the start."""
    nodes = [
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3]),
        make_node("MaxPool", ["z"], ["u"], kernel_shape=[3, 3]),
    ]
    model = make_model(nodes, {"x": (1, 1, 4, 4), "z": (1, 1, 4, 4)}, ["y", "u"])
    assert [set(cut.tensors) for cut in load_graph(model).cuts()] == [
        {"x", "z"}, {"y", "z"}, {"y", "u"},
    ]  # fmt: skip


def test_unknown_names_are_refused() -> None:
    """Asking for a layer that is not there is an error that names it."""
    graph = load([make_node("Relu", ["x"], ["y"])])
    with pytest.raises(ModelError, match="no layer 'nope'"):
        graph.layer("nope")
    assert graph.producer("x") is None
    assert graph.producer("y") is graph.layers[0]
    assert graph.readers("x") == (graph.layers[0],)


def branch(name: str, op: str, operand: str) -> onnx.GraphProto:
    """Return the body of one side of an If that reads ``operand`` from outside."""
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 6, 6))
    return helper.make_graph([make_node(op, [operand, "k"], [name])], name, [], [value])


def test_tensors_that_a_subgraph_reads_are_inputs_of_its_layer() -> None:
    """An If reads what its branches capture: activations as inputs, constants as weights."""
    nodes = [
        make_node("Exp", ["x"], ["e"]),
        make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        make_node("Greater", ["top", "zero"], ["up"]),
        make_node(
            "If", ["up"], ["y"],
            then_branch=branch("t", "Add", "e"), else_branch=branch("f", "Mul", "x"),
        ),
    ]  # fmt: skip
    constants = {"k": np.full(1, 3, np.float32), "zero": np.zeros((), np.float32)}
    model = make_model(nodes, {"x": (1, 4, 6, 6)}, ["y"], constants)
    graph = load_graph(model)
    layer = next(layer for layer in graph.layers if layer.kind == "If")
    assert set(layer.inputs) == {"up", "e", "x"}
    assert layer.weight_bytes == 4
    feeds = random_inputs(model)
    ours = run_model(graph.to_model(), feeds)
    assert relative_difference(ours, run_model(model, feeds)) == 0


def test_what_follows_a_shape_that_depends_on_data_is_one_last_layer() -> None:
    """After NonZero nothing is known beforehand: the rest of the network runs whole, as a tail."""
    nodes = [
        make_node("Conv", ["x", "w"], ["a"]),
        make_node("NonZero", ["a"], ["i"]),
        make_node("Transpose", ["i"], ["y"]),
        make_node("GlobalMaxPool", ["a"], ["z"]),
        make_node("Cast", ["y"], ["f"], to=TensorProto.FLOAT),
    ]
    model = make_model(nodes, {"x": (1, 4, 6, 6)}, ["z", "f"], {"w": WEIGHTS["w"]})
    graph = load_graph(model)
    assert operators(graph) == [["Conv"], ["GlobalMaxPool"], ["NonZero", "Transpose", "Cast"]]
    tail = graph.layers[-1]
    assert tail.barrier
    assert (tail.inputs, tail.outputs) == (("a",), ("f",))
    assert min(graph.tensors["f"].shape) == -1
    feeds = random_inputs(model)
    ours = run_model(graph.to_model(), feeds)
    assert relative_difference(ours, run_model(model, feeds)) == 0


@pytest.mark.parametrize(
    "node",
    [
        make_node("ReduceMax", ["x", "k"], ["y"]),
        make_node("Unsqueeze", ["x", "k"], ["y"]),
        make_node("Reshape", ["x", "k"], ["y"]),
        make_node("Slice", ["x", "k", "k"], ["y"]),
    ],
)
def test_shape_that_an_input_says_is_not_guessed(node: onnx.NodeProto) -> None:
    """Axes or extents that come with the request leave the shape open, and the layer whole."""
    model = make_model([node], {"x": (1, 4, 6, 6)}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, (1,)))
    graph = load_graph(model)
    assert graph.layers[0].barrier
    assert min(graph.tensors["y"].shape) == -1


def test_outputs_without_a_producer_load() -> None:
    """An output may be a constant or one of the inputs."""
    model = make_model(
        [make_node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y", "k", "x"],
        {"k": np.ones(3, np.float32)},
    )  # fmt: skip
    graph = load_graph(model)
    assert [set(cut.tensors) for cut in graph.cuts()] == [{"x"}, {"x", "y"}, {"x", "y", "k"}]
    feeds = random_inputs(model)
    ours = run_model(graph.to_model(), feeds)
    assert relative_difference(ours, run_model(model, feeds)) == 0


def test_per_tensor_quantisation_is_fused_and_weights_are_opened() -> None:
    """In a quantised model weights become plain constants, and rounding follows its layer."""
    nodes = [
        make_node("DequantizeLinear", ["q", "s"], ["u"], axis=0),
        make_node("Conv", ["x", "u"], ["a"]),
        make_node("QuantizeLinear", ["a", "t"], ["b"]),
        make_node("DequantizeLinear", ["b", "t"], ["y"]),
    ]
    constants: dict[str, Array] = {
        "q": np.arange(-8, 8, dtype=np.int8).reshape(4, 4, 1, 1),
        "s": np.full(4, 0.1, np.float32),
        "t": np.full((), 0.5, np.float32),
    }
    graph = load_graph(make_model(nodes, {"x": (1, 4, 6, 6)}, ["y"], constants))
    assert operators(graph) == [["Conv", "QuantizeLinear", "DequantizeLinear"]]


def test_operator_without_shape_rule_gets_its_shape_from_a_run() -> None:
    """ONNX Runtime's own operators have no inference rule: one run on zeros gives the shapes."""
    nodes = [
        make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3]),
        make_node("FusedConv", ["a", "w"], ["b"], domain="com.microsoft", activation="Relu"),
        make_node("Relu", ["b"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": WEIGHTS["w"]})
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = load_graph(model)
    assert graph.tensors["b"].shape == (1, 4, 4, 4)
    assert graph.tensors["b"].dtype == "float32"


def test_attributes_come_as_python_values() -> None:
    """Nodes carry strings and lists, not protocol buffers."""
    graph = load([make_node("Resize", ["x", "", "k"], ["y"], mode="nearest")],
                 k=np.array([1, 1, 2, 2], np.float32))  # fmt: skip
    assert graph.nodes[0].attrs["mode"] == "nearest"
    assert graph.nodes[0].inputs == ("x", "", "k")
    assert numpy_helper.to_array(graph.to_model().graph.initializer[0]).tolist() == [1, 1, 2, 2]


def test_a_network_as_it_is_written_has_a_layer_per_node() -> None:
    """Normalisations and activations stay apart, and the answer is the optimised network's."""
    model = build_model("mobilenet_v2", size=32)
    plain, optimised = (load_graph(model, optimise=way) for way in (False, True))
    assert len(plain.layers) == len(plain.nodes) == len(model.graph.node)
    assert len(optimised.layers) < len(plain.layers) / 2
    assert {"BatchNormalization", "Clip", "Add"} <= {layer.kind for layer in plain.layers}
    assert plain.macs == optimised.macs
    feeds = {"input": np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)}
    ours, other = (WholeModel(graph).run(feeds) for graph in (plain, optimised))
    for name, array in other.items():
        assert np.abs(ours[name] - array).max() <= 1e-4 * np.abs(array).max()
