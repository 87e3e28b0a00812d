"""What runs on integer kernels, in which form, and that nothing else is loaded as codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan
from partita.engine.session import SessionConfig, open_session
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.graph.whole import WholeModel
from partita.loading.write.child_models import optimise_graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.quantisation import CodeOptions, choose_bits, collect_ranges, quantize
from partita.quantisation.choose import USUAL
from partita.regions import Region
from partita.zoo import build_model
from tests.models import make_model

Feeds = dict[str, np.ndarray]
SIDE = 12


def draw_feeds(count: int = 4) -> list[Feeds]:
    """Return requests of the network."""
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((1, 3, SIDE, SIDE), np.float32)} for _ in range(count)]


def residual(
    kernel: int, *, has_bias: bool = True, act: str = "", options: CodeOptions = USUAL
) -> Graph:
    """Return a network with a sum, or an activation, behind a convolution, in 8 bits.

    Args:
        kernel: Of that convolution, along each axis.
        act: Operator instead of the sum.
    """
    rng = np.random.default_rng(0)
    pads = [kernel // 2] * 4
    behind = (
        [helper.make_node(act, ["c"], ["s"])]
        if act
        else [helper.make_node("Add", ["c", "r"], ["s"])]
    )
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="stem", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node(
            "Conv", ["r", "w2", *(["b2"] if has_bias else [])], ["c"], name="second", pads=pads
        ),
        *behind,
        helper.make_node("Conv", ["s", "w3"], ["t"], name="third"),
        helper.make_node("GlobalAveragePool", ["t"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], name="dense"),
    ]
    constants = {
        "w1": rng.standard_normal((16, 3, 3, 3), np.float32) / 5,
        "w2": rng.standard_normal((16, 16, kernel, kernel), np.float32) / 4,
        "b2": rng.standard_normal(16, np.float32),
        "w3": rng.standard_normal((24, 16, 1, 1), np.float32) / 4,
        "w4": rng.standard_normal((24, 40), np.float32),
        "b4": rng.standard_normal(40, np.float32),
    }
    used = {name for node in nodes for name in node.input}
    constants = {name: array for name, array in constants.items() if name in used}
    graph = load_graph(make_model(nodes, {"x": [1, 3, SIDE, SIDE]}, ["y"], constants), name="n")
    ranges = collect_ranges(graph, draw_feeds())
    return quantize(graph, choose_bits(graph, ranges, 8, 8, options))


def compile_parts(graph: Graph, parts: int = 1) -> Compiled:
    """Return the program of so many devices: rows of what is before the mean."""
    names = [f"d{number}" for number in range(parts)]
    cluster = Cluster.of(names)
    layers = [layer.name for layer in graph.layers]
    stop = layers.index("mean")
    cuts = np.linspace(0, SIDE, parts + 1).astype(int)
    shape = graph.tensors["t"].shape
    shards = tuple(
        Shard(name, {"t": Region.full(shape).with_axis(2, (int(a), int(b)))})
        for name, a, b in zip(names, cuts[:-1], cuts[1:], strict=True)
    )
    stages = (Stage("rows", tuple(layers[:stop]), "rows", shards),) if parts > 1 else ()
    rest = layers[stop:] if parts > 1 else layers
    stages += (Stage("rest", tuple(rest), "none", (Shard(names[0]),)),)
    plan = Plan(
        Identity("n", graph.hash),
        Identity("c", cluster.hash),
        stages,
        planner="by hand",
        integer_kernels=graph.integer,
        bits=dict(graph.bits),
    )
    return compile_plan(graph, plan, cluster)


def optimise(compiled: Compiled) -> list[onnx.ModelProto]:
    """Return the fragments as the engine would run them."""
    return [
        optimise_graph(
            compiled.graphs[info.hash],
            {name: compiled.blobs[name] for name in info.blobs},
            tuned=False,
            threads=1,
        )
        for info in compiled.program.fragments
    ]


def opened_in_requests(model: onnx.ModelProto) -> list[str]:
    """Return the constants that each request turns into floats anew, but for single numbers."""
    sizes = {tensor.name: np.prod(tensor.dims) for tensor in model.graph.initializer}
    return [
        node.input[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and sizes.get(node.input[0], 0) > 64
    ]


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_convolution_of_one_place_is_a_product_where_a_sum_follows(*, has_bias: bool) -> None:
    """Nothing runs on floats but the sum; nothing is turned into floats in a request."""
    graph = with_kernels(residual(1, has_bias=has_bias), integer=True)
    (model,) = optimise(compile_parts(graph))
    operators = [node.op_type for node in model.graph.node]
    assert "MatMulIntegerToFloat" in operators
    assert "QGemm" in operators  # it reads what a Flatten moved
    assert not {"Conv", "MatMul", "Gemm"} & set(operators)
    assert not opened_in_requests(model)


def test_activations_keep_a_product_from_floats_too() -> None:
    """So does whatever else follows before what is made is rounded."""
    graph = with_kernels(residual(1, act="HardSwish"), integer=True)
    (model,) = optimise(compile_parts(graph))
    assert "Conv" not in [node.op_type for node in model.graph.node]


def test_what_has_no_integer_kernel_is_loaded_as_floats() -> None:
    """Weights take four bytes there, as prices count them, and are not opened in each request."""
    graph = with_kernels(residual(3), integer=True)
    compiled = compile_parts(graph)
    (model,) = optimise(compiled)
    assert [node.op_type for node in model.graph.node].count("Conv") == 1
    assert not opened_in_requests(model)
    assert graph.layer("second").weight_bytes > 4 * graph.constants["w2"].size
    assert graph.layer("third").weight_bytes < 2 * graph.constants["w3"].size
    (info,) = compiled.program.fragments
    assert info.stored_bytes < info.weight_bytes


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("act", ["", "HardSwish"])
def test_integer_kernels_answer_what_floats_do(kernel: int, act: str) -> None:
    """The same codes but where a value lies between two steps."""
    fake = residual(kernel, act=act)
    whole = with_kernels(fake, integer=True)
    names = ["r", "s", "t", "g"]
    models = [WholeModel(graph, names) for graph in (fake, whole)]
    for feeds in draw_feeds(3):
        wanted, found = (model.run(feeds) for model in models)
        for name in names:
            steps = np.abs(found[name] - wanted[name]) / fake.packings[name].scale
            assert steps.max() < 1.01
            assert (steps > 0.5).mean() < 0.02


@pytest.mark.parametrize("kernel", [1, 3])
def test_rows_of_products_answer_as_the_whole(kernel: int) -> None:
    """Parts of a layer run in the same form."""
    graph = with_kernels(residual(kernel), integer=True)
    (feeds,) = draw_feeds(1)
    whole = run_program(compile_parts(graph), feeds)[0]["y"]
    divided = run_program(compile_parts(graph, 3), feeds)[0]["y"]
    np.testing.assert_allclose(divided, whole, atol=0.02 * np.abs(whole).max())


def test_graphs_for_floats_load_no_codes() -> None:
    """Neither does one whose activations alone are codes."""
    fake = residual(1)
    assert fake.code_constants == frozenset()
    assert fake.integer_nodes == frozenset()
    bare = replace(fake, packings={n: p for n, p in fake.packings.items() if n in fake.tensors})
    assert with_kernels(bare, integer=True).code_constants == frozenset()


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("act", ["", "HardSwish"])
def test_exact_sums_are_those_of_all_kernels(kernel: int, act: str) -> None:
    """Bit for bit: integer kernels, floats, and floats in the order that the graph has them."""
    fake = residual(kernel, act=act, options=CodeOptions(exact_sums=True))
    plain = open_session(fake.to_model().SerializeToString(), SessionConfig(optimise="none"))
    models = [WholeModel(graph) for graph in (fake, with_kernels(fake, integer=True))]
    for feeds in draw_feeds(3):
        wanted, found = (model.run(feeds)["y"] for model in models)
        assert np.array_equal(found, wanted)
        assert np.array_equal(plain.run(["y"], feeds)[0], wanted)


def test_exact_sums_hold_through_a_deep_network() -> None:
    """Fifty layers, depthwise ones and residual sums among them, in which one step moves many."""
    graph = load_graph(build_model("mobilenet_v2", size=64), name="deep")
    rng = np.random.default_rng(0)
    feeds = [{"input": rng.standard_normal((1, 3, 64, 64), np.float32)} for _ in range(4)]
    ranges = collect_ranges(graph, feeds)
    fake = quantize(graph, choose_bits(graph, ranges, 8, 8, CodeOptions(exact_sums=True)))
    integer = with_kernels(fake, integer=True)
    assert len(integer.integer_nodes) > 50
    wanted, found = (WholeModel(one).run(feeds[0]) for one in (fake, integer))
    for name, array in wanted.items():
        assert np.abs(found[name] - array).max() <= 1e-6 * np.abs(array).max()


@pytest.mark.parametrize("act", ["", "Clip"])
def test_weights_that_are_left_as_they_are_stay_so(act: str) -> None:
    """Between rounded tensors the engine would round them, too: to bytes of one scale for all."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((16, 16, 3, 3), np.float32)
    weights[0] *= 100
    behind = [helper.make_node("Clip", ["c", "low", "high"], ["t"])] if act else []
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="stem", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["c" if act else "t"], name="second", pads=[1] * 4),
        *behind,
        helper.make_node("Conv", ["t", "w3"], ["y"], name="third"),
    ]
    constants = {
        "w1": rng.standard_normal((16, 3, 3, 3), np.float32) / 5,
        "w2": weights / 100,
        "w3": rng.standard_normal((4, 16, 1, 1), np.float32),
        **({"low": np.float32(0), "high": np.float32(0.3)} if act else {}),
    }
    graph = load_graph(make_model(nodes, {"x": [1, 3, SIDE, SIDE]}, ["y"], constants), name="n")
    ranges = collect_ranges(graph, draw_feeds())
    fake = quantize(graph, choose_bits(graph, ranges, {"stem": 8, "third": 8}, 8))
    if act:  # of fewer bits, so that the engine does not do by rounding what the clip does
        table = choose_bits(graph, ranges, 8, {"stem": 8, "second": 4})
        fake = quantize(graph, table)
    names = ["r", "t"]
    models = [WholeModel(one, names) for one in (fake, with_kernels(fake, integer=True))]
    for feeds in draw_feeds(3):
        wanted, found = (model.run(feeds) for model in models)
        for name in names:
            steps = np.abs(found[name] - wanted[name]) / fake.packings[name].scale
            assert (steps > 0.5).mean() < 0.005
