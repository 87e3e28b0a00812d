"""The cost model on cases that can be computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from partita.cluster import UNMEASURED, Cluster, Device, Link
from partita.compile import build_layout, work_builder
from partita.cost import CostModel, CostOptions, update_cost
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES
from partita.errors import ClusterError
from partita.execution import Conditions
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.profile import RunCost, save_profile
from partita.profile.borders import cross_whole
from partita.profile.fit import fit_runs
from partita.profile.options import Border, MeasureState
from partita.program import Compute, Receive, Send
from partita.quantisation import quantize
from partita.regions import LayerBits, Region
from partita.simulation import latency_s
from tests.cost.fakes import (
    FIXED,
    WHOLE_S,
    conv_graph,
    skip_graph,
    sliced_graph,
    straight_profile,
)


def layer_s(rows: int, full: int = 16) -> float:
    """Return what the fake profile says."""
    return WHOLE_S * (FIXED + (1 - FIXED) * rows / full)


def rows_plan(graph: Graph, cluster: Cluster, cuts: tuple[int, ...], wire: str = "raw") -> Plan:
    """Return all layers in one stage, rows divided at ``cuts`` over the devices in order."""
    names = tuple(layer.name for layer in graph.layers)
    output = graph.outputs[0]
    whole = Region.full(graph.tensors[output].shape)
    shards = tuple(
        Shard(device, {output: whole.with_axis(2, (start, stop))})
        for device, start, stop in zip(cluster.names, cuts, cuts[1:], strict=False)
    )
    return Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        (Stage("s0", names, "rows", shards),),
        planner="hand",
        wires={} if wire == "raw" else {graph.inputs[0]: wire, output: wire},
    )


def test_a_quantised_graph_is_priced_on_devices_as_slow() -> None:
    """What was measured of a device holds for another graph of the model, too."""
    graph = conv_graph()
    cost = CostModel(graph, Cluster.of(["a", "b"]), profiles=straight_profile(graph))
    slow = update_cost(cost, Conditions(slowness={"b": 3.0}))
    other = slow.of(quantize(graph, {"c0": LayerBits(weight=8)}))
    boxes = {"t1": Region.full(graph.tensors["t1"].shape)}
    for name, factor in (("a", 1.0), ("b", 3.0)):
        assert other.layer_s(name, "c0", boxes) == factor * cost.layer_s("a", "c0", boxes)


def test_work_is_the_sum_of_layers_at_their_hulls() -> None:
    """Eight rows of the last layer need nine and ten of those before; the run adds its own."""
    graph = conv_graph()
    runs = RunCost(overhead_s=1e-4, layer_s=1e-5, factor=1.1)
    cost = CostModel(graph, Cluster.of(["a"]), profiles=straight_profile(graph, runs))
    box = Region.full((1, 4, 16, 16)).with_axis(2, (0, 8))
    work = work_builder(graph).stage(("c0", "c1", "c2"), {"t3": box})
    wanted = 1.1 * (layer_s(10) + layer_s(9) + layer_s(8)) + 1e-4 + 3e-5
    assert cost.work_s("a", work) == pytest.approx(wanted)
    assert cost.work_s("a", work) == cost.work_s("a", work)


def test_slow_down_multiplies_this_machines_profile() -> None:
    """A lab device takes its slow-down times what this machine takes, all fixed costs included."""
    graph = conv_graph()
    cluster = Cluster.of([Device("a"), Device("b", slow_down=8.0)])
    cost = CostModel(graph, cluster, profiles=straight_profile(graph, RunCost(overhead_s=1e-3)))
    work = work_builder(graph).stage(("c0",), {"t1": Region.full((1, 4, 16, 16))})
    assert cost.work_s("b", work) == pytest.approx(8 * cost.work_s("a", work))
    assert cost.devices["b"].encode_s("uint8", 1000) == pytest.approx(8 * (1e-3 + 1e-3))


def test_columns_take_what_rows_of_their_area_take() -> None:
    """All weights are read for a few columns as for a few rows; a channel has its own."""
    graph = conv_graph()
    cost = CostModel(graph, Cluster.of(["a"]), profiles=straight_profile(graph))
    whole = Region.full((1, 4, 16, 16))
    half_rows = whole.with_axis(2, (4, 12))
    assert cost.layer_s("a", "c0", {"t1": half_rows}) == pytest.approx(layer_s(8))
    tile = half_rows.with_axis(3, (0, 8))
    assert cost.layer_s("a", "c0", {"t1": tile}) == pytest.approx(layer_s(4))
    column = whole.with_axis(3, (0, 1))
    assert cost.layer_s("a", "c0", {"t1": column}) == pytest.approx(layer_s(1))
    thin = whole.with_axis(2, (0, 5)).with_axis(3, (0, 8))
    assert cost.layer_s("a", "c0", {"t1": thin}) == pytest.approx(layer_s(2.5))
    channels = whole.with_axis(1, (0, 1))
    assert cost.layer_s("a", "c0", {"t1": channels}) == pytest.approx(layer_s(16) / 4)
    both = tile.with_axis(1, (0, 2))
    assert cost.layer_s("a", "c0", {"t1": both}) == pytest.approx(layer_s(4) / 2)
    assert cost.layer_s("a", "c0", {"t1": thin.with_axis(2, (0, 1))}) == pytest.approx(layer_s(0.5))


def test_partial_sums_and_merges_cost_their_share_and_their_bytes() -> None:
    """A core over a quarter of its input takes a quarter; a merge takes its bytes."""
    graph = conv_graph()
    profile = straight_profile(graph, RunCost(copy_s_per_byte=1e-9))
    cost = CostModel(graph, Cluster.of(["a"]), profiles=profile)
    builder, layer = work_builder(graph), graph.layer("c1")
    part = Region.full((1, 4, 16, 16)).with_axis(1, (0, 1))
    assert cost.work_s("a", builder.partial(layer, part, "p")) == pytest.approx(WHOLE_S / 4)
    merge = builder.merge(layer, {"t2": Region.full((1, 4, 16, 16))}, ["p#0", "p#1"])
    assert cost.work_s("a", merge) == pytest.approx(3 * 4 * 16 * 16 * 4 * 1e-9)


def test_transfer_is_latency_message_and_bytes() -> None:
    """A message takes its fixed cost, its bytes over the bandwidth, and the delay."""
    links = [Link("a", "b", 1e6, 0.002, 0.0005)]
    cluster = Cluster.of(["a", "b"], links=links)
    graph = conv_graph()
    cost = CostModel(graph, cluster, profiles=straight_profile(graph))
    assert cost.transfer_s("a", "b", 10_000) == pytest.approx(0.0125)
    assert cost.transfer_s("a", "a", 10_000) == 0.0
    assert cost.transfer_s("b", "a", 10_000) == float("inf")


def test_latency_of_a_divided_stage_is_the_one_on_paper() -> None:
    """Two devices, rows in halves: input over, both compute, one half back."""
    graph = conv_graph()
    cluster = Cluster.of(["a", "b"], bandwidth_bytes_per_s=1e6, latency_s=0.001)
    cost = CostModel(graph, cluster, profiles=straight_profile(graph))
    layout = build_layout(graph, rows_plan(graph, cluster, (0, 8, 16)), cluster)
    compute_s = layer_s(10) + layer_s(9) + layer_s(8)
    over_s = 11 * 4 * 16 * 4 / 1e6 + 0.001
    back_s = 8 * 4 * 16 * 4 / 1e6 + 0.001
    found = latency_s(layout.program, cost.price(layout))
    assert found == pytest.approx(over_s + compute_s + back_s)
    assert cost.busy_s(layout) == {
        "a": pytest.approx(compute_s),
        "b": pytest.approx(compute_s),
    }
    assert cost.bottleneck_s(layout) == pytest.approx(compute_s)


def test_price_covers_every_step_with_wires_and_options() -> None:
    """Encoding, decoding and message handling are priced by format and bytes in memory."""
    graph = conv_graph()
    cluster = Cluster.of(["a", "b"])
    options = CostOptions(receive_s=1e-4, send_s=2e-4, admit_s=3e-4)
    cost = CostModel(graph, cluster, profiles=straight_profile(graph), options=options)
    layout = build_layout(graph, rows_plan(graph, cluster, (0, 0, 16), "uint8"), cluster)
    durations = cost.price(layout)
    size = 16 * 4 * 16 * 4
    steps = [step for part in layout.program.devices for step in part.steps]
    for step in steps:
        if isinstance(step, Compute):
            assert durations.compute_s[step.id] > 0
        elif isinstance(step, Send):
            assert durations.encode_s[step.id] == pytest.approx(1e-3 + size * 1e-6 + 2e-4)
        elif isinstance(step, Receive):
            assert durations.receive_s[step.id] == pytest.approx(2e-3 + size * 2e-6 + 1e-4)
    assert durations.admit_s == 3e-4


def test_links_of_one_medium_share_the_bottleneck() -> None:
    """What two links of one radio carry adds up; apart, only the busier one counts."""
    graph = conv_graph()
    apart = [Link("a", "b", 1e3), Link("b", "a", 1e3)]
    shared = [Link("a", "b", 1e3, medium="air"), Link("b", "a", 1e3, medium="air")]
    found = []
    for links in (apart, shared):
        cluster = Cluster.of(["a", "b"], links=links)
        cost = CostModel(graph, cluster, profiles=straight_profile(graph))
        layout = build_layout(graph, rows_plan(graph, cluster, (0, 0, 16)), cluster)
        found.append(cost.bottleneck_s(layout))
    assert found[1] == pytest.approx(2 * found[0])


def test_memory_counts_weights_pieces_and_arena() -> None:
    """One device with the whole model holds its weights, input and output, and one inner map.

    And a session beside what the process itself takes.
    """
    graph = conv_graph()
    cluster = Cluster.of(["a"])
    cost = CostModel(graph, cluster, profiles=straight_profile(graph))
    layout = build_layout(graph, rows_plan(graph, cluster, (0, 16)), cluster)
    use = cost.memory(layout)["a"]
    piece = 4 * 16 * 16 * 4
    assert use.weights == 3 * 4 * 4 * 9 * 4
    assert use.pieces == 2 * piece
    assert use.arena == piece
    assert use.overhead == PROCESS_BYTES + SESSION_BYTES
    assert use.total == use.overhead + use.weights + use.pieces + use.arena


@pytest.mark.parametrize(("shares", "most"), [((), (4, 4)), ((3, 1), (7, 4)), ((1, 3), (4, 7))])
def test_a_replica_holds_its_share_of_the_requests(
    shares: tuple[int, ...], most: tuple[int, int]
) -> None:
    """Pieces of no more of the eight in flight than may be on their way to it at one time."""
    graph = conv_graph()
    cluster = Cluster.of([Device(name, memory_bytes=10**9) for name in "abc"])
    cost = CostModel(graph, cluster, profiles=straight_profile(graph))
    layers = tuple(layer.name for layer in graph.layers)
    stage = Stage("s0", layers, "replica", (Shard("b"), Shard("c")), shares=shares)
    plan = Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        (stage,),
        planner="hand",
        in_flight=8,
    )
    uses = cost.memory(cost.layout(plan))
    piece = 4 * 16 * 16 * 4
    # One of them computes, with what it reads and makes; the others wait with either.
    assert (uses["b"].pieces, uses["c"].pieces) == ((most[0] + 1) * piece, (most[1] + 1) * piece)
    assert uses["a"].pieces == max(8, sum(most) - 1) * piece


def test_energy_is_power_times_busy_time() -> None:
    """A Raspberry Pi 4 at its busy power for the time it computes."""
    graph = conv_graph()
    cluster = Cluster.of([Device("a", kind="raspberry-pi-4")])
    cost = CostModel(graph, cluster)
    layout = build_layout(graph, rows_plan(graph, cluster, (0, 16)), cluster)
    assert cost.energy_joules(layout) == pytest.approx(6.4 * cost.busy_s(layout)["a"])


def test_profile_named_in_the_cluster_is_the_devices_own(tmp_path: Path) -> None:
    """A profile file named by the cluster counts as it is, without slow-down."""
    graph = conv_graph()
    save_profile(straight_profile(graph), tmp_path / "a.json")
    device = Device("a", profile=str(tmp_path / "a.json"), slow_down=9.0)
    cost = CostModel(graph, Cluster.of([device]))
    box = Region.full((1, 4, 16, 16))
    assert cost.layer_s("a", "c0", {"t1": box}) == pytest.approx(WHOLE_S)


def test_profile_given_for_a_device_is_its_own_too() -> None:
    """A slow-down multiplies what was measured on this machine, not what was on the device."""
    graph = conv_graph()
    devices = [Device("a", slow_down=9.0), Device("b", slow_down=9.0)]
    profile = straight_profile(graph)
    cost = CostModel(graph, Cluster.of(devices), profiles={"a": profile, "*": profile})
    boxes = {"t1": Region.full((1, 4, 16, 16))}
    assert cost.layer_s("a", "c0", boxes) == pytest.approx(WHOLE_S)
    assert cost.layer_s("b", "c0", boxes) == pytest.approx(9 * WHOLE_S)


def test_this_machines_profile_may_be_for_its_own_kind_alone() -> None:
    """Under the name ``*`` it stands for boards too, under its kind's name only for itself."""
    graph = conv_graph()
    cluster = Cluster.of([Device("here", slow_down=9.0), Device("board", kind="raspberry-pi-4")])
    boxes, profile = {"t1": Region.full((1, 4, 16, 16))}, straight_profile(graph)

    def priced(name: str, device: str) -> float:
        return CostModel(graph, cluster, profiles={name: profile}).layer_s(device, "c0", boxes)

    assert priced("*", "here") == priced("this-machine", "here") == pytest.approx(9 * WHOLE_S)
    assert priced("*", "board") == pytest.approx(WHOLE_S)
    by_kind = CostModel(graph, Cluster.of(cluster.devices[1:])).layer_s("board", "c0", boxes)
    assert priced("this-machine", "board") == by_kind


def test_borders_of_blocked_layers_cost_their_bytes() -> None:
    """A fragment that begins and ends at layers in the engine's layout pays both conversions."""
    graph = conv_graph()
    runs = RunCost(enter_s_per_byte=1e-6, leave_s_per_byte=2e-6)
    profile = straight_profile(graph, runs)
    for name, layer in profile.layers.items():
        profile.layers[name] = type(layer)(layer.kind, layer.rows, True, layer.samples)
    cost = CostModel(graph, Cluster.of(["a"]), profiles=profile)
    work = work_builder(graph).stage(("c0",), {"t1": Region.full((1, 4, 16, 16))})
    few_channels = 4 * 16 * 16 * 4 * 2e-6
    assert cost.work_s("a", work) == pytest.approx(WHOLE_S + few_channels)


def test_a_sum_with_a_foreign_term_runs_outside_the_engines_layout() -> None:
    """Inside a fragment the sum is free; else its terms are not converted, and it is a pass."""
    graph, weight = skip_graph(), 8 * 16 * 16 * 4
    runs = RunCost(enter_s_per_byte=1e-6, leave_s_per_byte=2e-6, copy_s_per_byte=1e-7)
    profile = straight_profile(graph, runs)
    for name, layer in profile.layers.items():
        profile.layers[name] = type(layer)(layer.kind, layer.rows, True, layer.samples)
    cost = CostModel(graph, Cluster.of(["a"]), profiles=profile)
    names = tuple(layer.name for layer in graph.layers)
    box = Region.full((1, 8, 16, 16))
    whole = work_builder(graph).stage(names, {graph.outputs[0]: box})
    inside = len(names) * WHOLE_S + weight * (1e-6 + 2e-6)
    assert cost.work_s("a", whole) == pytest.approx(inside)
    last = work_builder(graph).stage(names[-1:], {graph.outputs[0]: box})
    foreign = WHOLE_S + weight * (1e-6 + 2e-6 + 3e-7)
    assert cost.work_s("a", last) == pytest.approx(foreign)


def test_a_whole_network_takes_what_it_took() -> None:
    """What crosses between layouts inside is counted once: in the fit as in the price."""
    graph = sliced_graph()
    profile = straight_profile(graph)
    for name, layer in profile.layers.items():
        blocked = layer.kind == "Conv"
        profile.layers[name] = type(layer)(layer.kind, layer.rows, blocked, layer.samples)
    state = MeasureState("key", profile.layers, whole_s=0.9 * WHOLE_S * len(graph.layers))
    state.enter, state.leave = [Border(10**5, 3e-3)], [Border(10**5, 2e-3)]
    crossed = cross_whole(graph, profile.layers)
    assert crossed.enter
    assert crossed.leave
    profile = replace(profile, runs=fit_runs(state, 1e-8, crossed=crossed).runs)
    cost = CostModel(graph, Cluster.of(["a"]), profiles=profile)
    names = tuple(layer.name for layer in graph.layers)
    shape = graph.tensors[graph.outputs[0]].shape
    whole = work_builder(graph).stage(names, {graph.outputs[0]: Region.full(shape)})
    assert cost.work_s("a", whole) == pytest.approx(state.whole_s)


def test_boards_that_nobody_measured_have_no_price() -> None:
    """This machine's profile says nothing of another one, which its own profile prices."""
    graph = conv_graph()
    profile = straight_profile(graph)
    cluster = Cluster.of(["a", Device("board", kind=UNMEASURED, address="tcp/192.0.2.7:7447")])
    for profiles in (profile, {"*": profile}):
        with pytest.raises(ClusterError, match="'board' has neither profile nor kind, only an ad"):
            CostModel(graph, cluster, profiles=profiles)
    CostModel(graph, cluster, profiles={"*": profile, "board": profile})


def test_wrong_profiles_are_cluster_errors() -> None:
    """No profile and no kind, and a profile of another model, each say what to do."""
    graph = conv_graph()
    with pytest.raises(ClusterError, match="neither profile nor a kind"):
        CostModel(graph, Cluster.of(["a"]))
    other = straight_profile(conv_graph(rows=32))
    with pytest.raises(ClusterError, match=r"is of model .* Measure it with 'partita profile'"):
        CostModel(graph, Cluster.of(["a"]), profiles=other)
    with pytest.raises(ClusterError, match="Estimator 'magic' is unknown"):
        CostModel(graph, Cluster.of(["a"]), estimator="magic", profiles=straight_profile(graph))
    with pytest.raises(ClusterError, match="Profiles are of type list: allowed is"):
        CostModel(graph, Cluster.of(["a"]), profiles=[other])  # type: ignore[arg-type]


def test_a_part_of_a_sum_pays_for_its_own_conversions() -> None:
    """Half of the channels are read and a whole map is left; what is fused comes with the merge."""
    graph = skip_graph()
    runs = RunCost(enter_s_per_byte=1e-6, leave_s_per_byte=2e-6)
    profile = straight_profile(graph, runs)
    for name, layer in profile.layers.items():
        profile.layers[name] = type(layer)(layer.kind, layer.rows, True, layer.samples)
    cost = CostModel(graph, Cluster.of(["a"]), profiles=profile)
    half = Region.full((1, 8, 16, 16)).with_axis(1, (0, 4))
    work = work_builder(graph).partial(graph.layer("c2"), half, "p")
    # So few channels are read without blocks.
    assert cost.work_s("a", work) == pytest.approx(WHOLE_S / 2 + 8 * 16 * 16 * 4 * 2e-6)
