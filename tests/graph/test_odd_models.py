"""Models that are valid but unusual: they work, or one line says why they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.uniform import UniformOptions, plan_uniform
from onnx import TensorProto, helper, numpy_helper

from partita.cluster import Cluster
from partita.compile import check_plan, compile_plan
from partita.errors import ModelError
from partita.exactness.compare import check_exactness
from partita.graph import load_graph
from partita.graph.splits import row_axes

F = TensorProto.FLOAT


def value(name: str, shape: list[int], kind: int = F) -> onnx.ValueInfoProto:
    """Return a description of an input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def conv(source: str, weight: str, target: str, name: str = "") -> onnx.NodeProto:
    """Return a convolution that keeps height and width, its kernel left to the weights."""
    return helper.make_node("Conv", [source, weight], [target], name=name, pads=[1, 1, 1, 1])


def model_of(
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, tuple[int, ...]],
    kind: int = F,
) -> onnx.ModelProto:
    """Return a model with one image input ``x`` of 3 x 8 x 8 and drawn weights."""
    rng = np.random.default_rng(1)
    inits = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(nodes, "odd", [value("x", [1, 3, 8, 8], kind)], outputs, inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def assert_divided_equals_whole(model: onnx.ModelProto) -> None:
    """Check a division by rows over two devices."""
    graph = load_graph(model)
    cluster = Cluster.of(["a", "b"])
    plan = plan_uniform(graph, cluster, UniformOptions("rows", (1, 2)))
    check_plan(graph, plan, cluster)
    feeds = {"x": np.random.default_rng(2).standard_normal((1, 3, 8, 8), np.float32)}
    found = check_exactness(graph, compile_plan(graph, plan, cluster), [feeds])
    assert max(one.relative for one in found) <= 1e-5


def test_an_input_may_be_an_output() -> None:
    """A tensor that is handed on untouched keeps its shape for the layers that read it."""
    outputs = [value("y", [1, 4, 8, 8]), value("x", [1, 3, 8, 8])]
    assert_divided_equals_whole(model_of([conv("x", "w", "y")], outputs, {"w": (4, 3, 3, 3)}))


def test_nodes_may_share_a_name() -> None:
    """Engines want unique node names; the whole model gets them."""
    nodes = [conv("x", "w", "t", "n"), conv("t", "v", "y", "n")]
    weights = {"w": (4, 3, 3, 3), "v": (2, 4, 3, 3)}
    assert_divided_equals_whole(model_of(nodes, [value("y", [1, 2, 8, 8])], weights))


def test_deep_chains_do_not_exhaust_the_stack() -> None:
    """Row axes of a chain of many hundred layers are found in order, not by recursion."""
    count = 400
    nodes = [conv(f"t{k}" if k else "x", "w", f"t{k + 1}") for k in range(count)]
    model = model_of(nodes, [value(f"t{count}", [1, 3, 8, 8])], {"w": (3, 3, 3, 3)})
    assert row_axes(load_graph(model)).rows(f"t{count}") == 8


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.COMPLEX64])
def test_types_that_cannot_travel_are_refused(kind: int) -> None:
    """The message names tensor and type."""
    node = helper.make_node("Identity", ["x"], ["y"])
    again = helper.make_node("Transpose", ["y"], ["z"], perm=[0, 1, 3, 2])
    model = model_of([node, again], [value("z", [1, 3, 8, 8], kind)], {}, kind)
    with pytest.raises(ModelError, match=r"Tensor '.' is of type (bfloat16|complex64), allowed"):
        load_graph(model)


def test_chance_is_refused() -> None:
    """A node that draws random numbers is named."""
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], name="noise")
    with pytest.raises(ModelError, match=r"Node 'noise' .* draws random numbers"):
        load_graph(model_of([node], [value("y", [1, 3, 8, 8])], {}))


def test_outputs_of_unknown_length_cannot_be_planned() -> None:
    """They load, and planning says what to do."""
    node = helper.make_node("NonZero", ["x"], ["y"])
    model = model_of([node], [helper.make_tensor_value_info("y", TensorProto.INT64, [4, None])], {})
    graph = load_graph(model)
    with pytest.raises(ModelError, match=r"Output 'y' .* depends on the data"):
        plan_uniform(graph, Cluster.of(["a", "b"]), UniformOptions("rows", (1, 2)))


def test_only_regular_files_of_possible_size_are_read(tmp_path: Path) -> None:
    """A device that never ends, and a file larger than ONNX allows, are refused at once."""
    with pytest.raises(ModelError, match="no regular file"):
        load_graph("/dev/zero")
    large = tmp_path / "large.onnx"
    with large.open("wb") as file:
        file.truncate(3 * 10**9)
    with pytest.raises(ModelError, match="at most"):
        load_graph(large)


def node(op: str, reads: list[str], writes: list[str], **attrs: Any) -> onnx.NodeProto:
    """Return a node."""
    return helper.make_node(op, reads, writes, **attrs)


IMAGE = value("y", [1, 4, 8, 8])
WEIGHT = {"w": (4, 3, 3, 3)}


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([node("Identity", ["k"], ["z"])], [IMAGE, value("z", [5])]),
        ([node("Add", ["k", "k"], ["z"])], [IMAGE, value("z", [5])]),
        ([], [IMAGE, value("k", [5])]),
        (
            [
                node("Sqrt", ["k"], ["q"]),
                node("ReduceSum", ["q"], ["s"], keepdims=0),
                node("Mul", ["y", "s"], ["o"]),
            ],
            [value("o", [1, 4, 8, 8]), value("q", [5])],
        ),
    ],
)
def test_outputs_may_depend_on_no_input(
    nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto]
) -> None:
    """A fixed value is answered with every request, wherever it is computed."""
    model = model_of([conv("x", "w", "y"), *nodes], outputs, WEIGHT)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(5, dtype=np.float32), "k"))
    assert_divided_equals_whole(model)


def test_a_model_of_fixed_values_alone_runs() -> None:
    """Even a model that looks at no input can be planned."""
    model = model_of([node("Identity", ["w"], ["z"])], [value("z", [4, 3, 3, 3])], WEIGHT)
    assert_divided_equals_whole(model)


def test_scalars_that_depend_on_the_data_are_compared() -> None:
    """A tensor of no axes keeps its shape on the way through a program."""
    nodes = [
        conv("x", "w", "y"),
        node("NonZero", ["y"], ["places"]),
        node("Cast", ["places"], ["numbers"], to=F),
        node("ReduceSum", ["numbers"], ["r"], keepdims=0),
    ]
    assert_divided_equals_whole(model_of(nodes, [IMAGE, value("r", [])], WEIGHT))


def sliced(*after: onnx.NodeProto, outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """Return a model with a tensor ``e`` that has no elements."""
    model = model_of(
        [conv("x", "w", "y"), node("Slice", ["y", "at", "at", "axis"], ["e"]), *after],
        outputs,
        WEIGHT,
    )
    for name, number in (("at", 0), ("axis", 2)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([number]), name))
    return model


def test_tensors_without_elements_are_left_out() -> None:
    """Inside a model they are constants; as an output they are refused by name."""
    joined = [node("Concat", ["y", "e"], ["c"], axis=2), node("Relu", ["c"], ["z"])]
    assert_divided_equals_whole(sliced(*joined, outputs=[value("z", [1, 4, 8, 8])]))
    model = sliced(outputs=[IMAGE, value("e", [1, 4, 0, 8])])
    with pytest.raises(ModelError, match=r"Output 'e' .* has shape 1x4x0x8, which is empty"):
        assert_divided_equals_whole(model)


@pytest.mark.parametrize("masked", [False, True])
def test_dropout_that_is_told_not_to_train_does_nothing(masked: bool) -> None:
    """Only a mode that may be true draws; a mask of ones is no chance."""
    outputs = [value("d", [1, 4, 8, 8])]
    outputs += [value("m", [1, 4, 8, 8], TensorProto.BOOL)] if masked else []
    names = ["d", "m"] if masked else ["d"]
    model = model_of(
        [conv("x", "w", "y"), node("Dropout", ["y", "ratio", "mode"], names)], outputs, WEIGHT
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "ratio"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(False), "mode"))
    assert_divided_equals_whole(model)
    model.graph.initializer.pop()
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "mode"))
    with pytest.raises(ModelError, match="draws random numbers"):
        load_graph(model)


@pytest.mark.parametrize(("op", "groups"), [("Conv", 0), ("Conv", 2), ("ConvTranspose", 1)])
def test_channels_that_do_not_fit_are_named(op: str, groups: int) -> None:
    """The engine would say so much later, and in its own words."""
    wrong = node(op, ["x", "w"], ["y"], name="wrong", group=groups, pads=[1, 1, 1, 1])
    model = model_of([wrong], [IMAGE], {"w": (4, 3, 3, 3)})
    with pytest.raises(ModelError, match=rf"'wrong' \({op}\) .* reads 3 channels .* {groups} gr"):
        load_graph(model)


def test_newer_operators_than_are_known_are_refused() -> None:
    """The message says which versions are allowed."""
    model = model_of([conv("x", "w", "y")], [IMAGE], WEIGHT)
    model.opset_import[0].version = 99
    with pytest.raises(ModelError, match=r"opset 99: allowed are 7 to \d\d"):
        load_graph(model)


def test_an_extent_of_nothing_is_free() -> None:
    """Some exporters write 0 for what is not fixed; a shape of nothing is not allowed."""
    model = model_of([conv("x", "w", "y")], [value("y", [0, 4, 8, 8])], WEIGHT)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    with pytest.raises(ModelError, match=r"has shape 0x3x8x8: empty .* give --shape x=1x3x8x8"):
        load_graph(model)
    with pytest.raises(ModelError, match="cannot have shape 0x3x8x8: the model says dim0x3x8x8"):
        load_graph(model, shapes={"x": (0, 3, 8, 8)})
    assert load_graph(model, shapes={"x": (2, 3, 8, 8)}).tensors["y"].shape == (2, 4, 8, 8)


def test_types_that_do_not_go_together_are_refused() -> None:
    """What no engine would run is refused when it is read."""
    model = model_of([conv("x", "w", "y"), node("Add", ["y", "k"], ["z"])], [IMAGE], WEIGHT)
    model.graph.output.append(value("z", [1, 4, 8, 8]))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(8), "k"))
    with pytest.raises(ModelError, match=r"cannot run: Type Error: .*Add"):
        load_graph(model)


def test_tensors_that_no_device_holds_are_refused() -> None:
    """Before anybody goes over their rows one by one."""
    model = model_of([conv("x", "w", "y")], [value("y", [1, 4, 2**31, 2**31])], WEIGHT)
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = 2**31
    with pytest.raises(ModelError, match=r"Tensor 'x' .* allowed are 1099511627776 elements"):
        load_graph(model)


def test_models_of_nothing_say_so() -> None:
    """A whole file without nodes or outputs is not called damaged."""
    model = model_of([conv("x", "w", "y")], [], WEIGHT)
    with pytest.raises(ModelError, match="has no nodes or no outputs"):
        load_graph(model)


def test_models_that_take_nothing_are_refused() -> None:
    """They always answer the same; no plan could divide them."""
    model = model_of([helper.make_node("Relu", ["k"], ["y"])], [value("y", [8])], WEIGHT)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(8, np.float32), "k"))
    del model.graph.input[:]
    with pytest.raises(ModelError, match="takes no inputs: it always answers the same"):
        load_graph(model)


def test_absent_inputs_at_the_end_are_dropped() -> None:
    """Engines take empty names at the end as absent, or crash: ONNX Runtime at this one."""
    node = helper.make_node("LayerNormalization", ["x", "scale", ""], ["y"])
    graph = load_graph(model_of([node], [value("y", [1, 3, 8, 8])], {"scale": (8,)}))
    assert graph.nodes[0].inputs == ("x", "scale")


def test_outputs_need_no_type() -> None:
    """An output that the model says nothing of is what its node makes."""
    model = model_of([helper.make_node("Shape", ["x"], ["y"])], [onnx.ValueInfoProto(name="y")], {})
    graph = load_graph(model)
    assert (graph.tensors["y"].shape, graph.tensors["y"].dtype) == ((4,), "int64")
