"""Formats that compress, as options of planners: what samples say of them decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from onnx import TensorProto, helper

from partita.cluster import Cluster
from partita.compile import build_layout, check_plan, compile_plan, planned_graph
from partita.errors import PlanError
from partita.exactness.compare import check_exactness, is_lossy
from partita.graph import Graph, load_graph
from partita.plan import Plan, dump_plan, load_plan
from partita.planners import PlanOptions, find_plan
from partita.planners.options import options_of
from partita.quantisation import measure_shares
from partita.quantisation.samples import Feeds
from partita.regions import read_format
from tests.cost.fakes import photo_graph
from tests.models import make_model
from tests.planners.edgecloud.test_autosplit import IntegerCost, _network
from tests.planners.fakes import make_chain, make_cost


def halve(graph: Graph, tensors: Collection[str], wire: str) -> Mapping[str, float]:
    """Return what a user's samples might say: half of everything."""
    return dict.fromkeys(tensors, 0.5)


def sent(graph: Graph, plan: Plan, cluster: Cluster) -> dict[str, int]:
    """Return the expected bytes of what travels, by tensor."""
    program = build_layout(planned_graph(graph, plan), plan, cluster).program
    return {stream.tensor: stream.wire_bytes for stream in program.streams}


def test_what_is_compressed_is_sent_in_half_the_time() -> None:
    """The input goes to the cloud as half of its bytes; raw it would take twice as long."""
    cost = make_cost(make_chain(3), 1e4, 1e9, bandwidth=1e4)
    raw = find_plan(cost, planner="cloud_only")
    found = find_plan(
        cost, planner="cloud_only", options=PlanOptions(compress="zlib", payloads=halve)
    )
    assert found.plan.wires["x"] == "zlib@0.5"
    sizes = [sent(cost.graph, one.plan, cost.cluster)["x"] for one in (found, raw)]
    assert sizes[0] == sizes[1] / 2
    assert found.latency_s < 0.6 * raw.latency_s
    assert not is_lossy(compile_plan(cost.graph, found.plan, cost.cluster).program)
    check_plan(cost.graph, load_plan(dump_plan(found.plan)), cost.cluster)


def test_what_gains_nothing_stays_as_it_is() -> None:
    """Noise is as long as before: the plan names no format."""
    cost = make_cost(make_chain(3), 1e4, 1e9, bandwidth=1e4)
    noise = lambda graph, tensors, wire: dict.fromkeys(tensors, 1.0)  # noqa: E731
    options = PlanOptions(compress="zlib", payloads=noise)
    assert find_plan(cost, planner="cloud_only", options=options).plan.wires == {}


def test_compressing_moves_the_cut() -> None:
    """Where pictures are a tenth of their bytes the cloud is sooner than a cut."""
    cost = make_cost(make_chain(4), 1e6, 1e9, bandwidth=2e5)
    tenth = lambda graph, tensors, wire: {t: 0.1 if t == "x" else 1.0 for t in tensors}  # noqa: E731
    cut = find_plan(cost, planner="neurosurgeon")
    assert cut.plan.stages[0].shards[0].device == "d0"
    options = PlanOptions(compress="jpeg60", payloads=tenth)
    found = find_plan(cost, planner="neurosurgeon", options=options)
    assert [shard.device for stage in found.plan.stages for shard in stage.shards] == ["d1"]
    assert found.plan.wires == {"x": "jpeg60@0.1"}
    assert found.latency_s < cut.latency_s


def test_pictures_have_four_axes() -> None:
    """A network of tensors without requests has none: a line says so, whoever asks."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="only")
    weights = {"w": np.ones((8, 4), np.float32)}
    cost = make_cost(load_graph(make_model([node], {"x": (3, 8, 8)}, ["y"], weights)), 1e4, 1e9)
    for options in (
        PlanOptions(wires={"x": "jpeg80"}, payloads=halve),
        PlanOptions(compress="jpeg80", payloads=halve),
    ):
        with pytest.raises(PlanError, match=r"jpeg80.*allowed: tensors of four axes and more"):
            find_plan(cost, planner="cloud_only", options=options)


@pytest.mark.parametrize("planner", ["cut", "neurosurgeon", "single"])
def test_allowing_a_format_makes_no_plan_worse(planner: str) -> None:
    """Compressing takes longer than it saves: what is best is best with nothing compressed."""
    cost = replace(make_cost(make_chain(3), 7e5, 1e9, bandwidth=1e7), codec_s_per_byte=1e-5)
    raw = find_plan(cost, planner=planner)
    options = PlanOptions(compress="zlib", payloads=halve)
    found = find_plan(cost, planner=planner, options=options)
    assert found.latency_s == raw.latency_s
    assert found.best_single_s == raw.best_single_s
    assert found.lower_bound_s <= raw.lower_bound_s
    assert found.plan.wires == {}
    assert found.plan.options is not None
    assert found.plan.options.compress == "zlib"


def test_it_takes_samples() -> None:
    """Without, nobody knows how long payloads are; one line says what to give."""
    cost = make_cost(make_chain(2), 1e7, 1e9)
    with pytest.raises(PlanError, match="'zlib' needs samples, which say how long its payloads"):
        find_plan(cost, options=PlanOptions(compress="zlib"))


def test_planning_anew_keeps_what_samples_said() -> None:
    """There are no samples then: what travels compressed still does, as it was expected to."""
    cost = make_cost(make_chain(3), 1e4, 1e9, bandwidth=1e4)
    options = PlanOptions(compress="zlib", payloads=halve)
    plan = find_plan(cost, planner="cloud_only", options=options).plan
    again = find_plan(cost, planner="cloud_only", options=options_of(plan)).plan
    assert again.wires == plan.wires != {}


@cache
def draw_few() -> list[Feeds]:
    """Return inputs of the small network, of noise."""
    rng = np.random.default_rng(0)
    return [{"t0": rng.standard_normal((1, 8, 16, 16)).astype(np.float32)} for _ in range(2)]


def fast_cloud() -> IntegerCost:
    """Return an edge that is best cut from a cloud."""
    graph, _ = _network()
    cost = make_cost(graph, 2e7, 1e9, bandwidth=1e6)
    return IntegerCost(graph, cost.cluster, cost.macs_per_s)


def test_codes_of_a_quantised_network_are_compressed() -> None:
    """AUTO-SPLIT's tensor travels as its own codes, packed without loss; answers are the same."""
    graph, data = _network()
    cost = fast_cloud()
    settings = {"autosplit.most_error": "1.0"}
    given = PlanOptions(quantisation=data, method=settings)
    plain = find_plan(cost, planner="autosplit", options=given)
    options = PlanOptions(
        quantisation=data,
        method=settings,
        compress="zlib",
        payloads=partial(measure_shares, draw_few()),
    )
    found = find_plan(cost, planner="autosplit", options=options)
    assert found.plan.bits
    assert found.latency_s < plain.latency_s
    planned = planned_graph(graph, found.plan)
    compiled = compile_plan(planned, found.plan, cost.cluster)
    wires = {stream.tensor: stream.wire for stream in compiled.program.streams}
    squeezed = {name: read_format(wire) for name, wire in wires.items() if name in found.plan.wires}
    assert any(form.has_codes and form.method == "zlib" for form in squeezed.values())
    assert not is_lossy(compiled.program)
    for found_difference in check_exactness(planned, compiled, draw_few()):
        assert found_difference.relative <= 1e-5


def test_the_cloud_takes_pictures_as_bytes() -> None:
    """The input is rounded on the camera, and travels as a quarter of its floats."""
    _, data = _network()
    cost = fast_cloud()
    options = PlanOptions(quantisation=data, method={"cloud_only.input_bits": "8"})
    found = find_plan(cost, planner="cloud_only", options=options)
    assert list(found.plan.bits) == ["t0"]
    assert sent(cost.graph, found.plan, cost.cluster)["t0.quantized"] == 8 * 16 * 16 + 4
    assert found.latency_s < find_plan(cost, planner="cloud_only").latency_s


@pytest.mark.parametrize("wire", ["zlib", "jpeg80"])
def test_a_photo_of_bytes_is_sent_compressed(wire: str) -> None:
    """It is found from samples of bytes, takes less to send, and arrives as it should."""
    graph = photo_graph(TensorProto.UINT8)
    smooth = np.linspace(0, 255, 16).astype(np.uint8)
    photo = {"x": np.broadcast_to(smooth, (1, 3, 16, 16)).copy()}
    cost = make_cost(graph, 1e4, 1e9, bandwidth=1e4)
    options = PlanOptions(compress=wire, payloads=partial(measure_shares, [photo]))
    found, raw = (
        find_plan(cost, planner="cloud_only", options=one) for one in (options, PlanOptions())
    )
    assert found.plan.wires["x"].startswith(f"{wire}@0.")
    sizes = [sent(graph, one.plan, cost.cluster)["x"] for one in (found, raw)]
    assert sizes[0] < sizes[1] == 3 * 16 * 16
    assert found.latency_s < raw.latency_s
    compiled = compile_plan(graph, found.plan, cost.cluster)
    worst = max(one.relative for one in check_exactness(graph, compiled, [photo]))
    assert worst <= (1e-6 if wire == "zlib" else 0.1)
