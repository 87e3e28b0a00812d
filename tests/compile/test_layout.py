"""What travels, counted by hand on two devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from partita.cluster import Cluster, Device
from partita.compile import build_layout, compile_plan
from partita.execution.tables import StepTable
from partita.plan import Plan, Shard, Stage
from partita.program import Compute, DeviceProgram, Feed, Receive, Send
from partita.regions import Region
from tests.compile.samples import halves, make_plan, pair, rows, skip_graph, small_graph, whole
from tests.planners.fakes import make_chain

GRAPH, CLUSTER = small_graph(), pair()
Moved = tuple[str, str, str, tuple[int, int]]


def moved(plan: Plan) -> list[Moved]:
    """Return all streams: tensor, source, target, rows."""
    program = build_layout(GRAPH, plan, CLUSTER).program
    return [(s.tensor, s.source, s.target, s.box.bounds[2]) for s in program.streams]


def test_streams_of_two_halves() -> None:
    """Rows in two halves: the input with its halo, one halo row each way, one half back."""
    assert moved(halves(GRAPH, CLUSTER)) == [
        ("x", "left", "right", (3, 8)),
        ("a", "right", "left", (4, 5)),
        ("a", "left", "right", (3, 4)),
        ("b", "right", "left", (4, 8)),
    ]


def test_a_device_knows_its_port() -> None:
    """What its worker lets messages leave by; a device without a port has no rate."""
    left, right = CLUSTER.devices
    cluster = replace(CLUSTER, devices=(replace(left, port_bytes_per_s=5e6), right))
    program = build_layout(GRAPH, halves(GRAPH, cluster), cluster).program
    assert [program.device(n).port_bytes_per_s for n in ("left", "right")] == [5e6, None]


def test_bytes_of_two_halves() -> None:
    """A row of 2 channels and 4 columns is 32 bytes: 5, 1, 1 and 4 rows travel."""
    program = build_layout(GRAPH, halves(GRAPH, CLUSTER), CLUSTER).program
    assert [stream.wire_bytes for stream in program.streams] == [160, 32, 32, 128]
    narrow = build_layout(GRAPH, halves(GRAPH, CLUSTER, wires={"x": "uint8"}), CLUSTER).program
    assert [stream.wire_bytes for stream in narrow.streams] == [52, 32, 32, 128]


def test_fused_layers_compute_their_halo_instead() -> None:
    """In one stage the middle tensor does not travel; two halo rows of the input do."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        rows("s0", ("first", "second"), "b", ("left", (0, 4)), ("right", (4, 8))),
        whole("s1", ("mean",), "left"),
    )
    assert moved(plan) == [("x", "left", "right", (2, 8)), ("b", "right", "left", (4, 8))]


def test_a_device_is_not_sent_what_it_holds() -> None:
    """Everything that a device has computed, halo included, is used again before it is sent."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first",), "left", "right", axis="everywhere"),
        rows("s1", ("second",), "b", ("left", (0, 4)), ("right", (4, 8))),
        whole("s2", ("mean",), "left"),
    )
    assert moved(plan) == [("x", "left", "right", (0, 8)), ("b", "right", "left", (4, 8))]


def test_a_piece_is_sent_once() -> None:
    """A tensor that two stages read on the same device travels once, and later only the rest."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first",), "left"),
        rows("s1", ("second",), "b", ("left", (0, 6)), ("right", (6, 8))),
        whole("s2", ("mean",), "right"),
    )
    assert [one for one in moved(plan) if one[0] == "a"] == [("a", "left", "right", (5, 8))]
    assert [one for one in moved(plan) if one[0] == "b"] == [("b", "left", "right", (0, 6))]


def test_empty_shares_do_nothing() -> None:
    """A device with an empty share computes nothing and gets nothing."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        rows("s0", ("first",), "a", ("left", (0, 8)), ("right", (8, 8))),
        rows("s1", ("second",), "b", ("left", (0, 8)), ("right", (4, 4))),
        whole("s2", ("mean",), "left"),
    )
    program = build_layout(GRAPH, plan, CLUSTER).program
    assert program.streams == ()
    assert [part.device for part in program.devices] == ["left"]


def test_everywhere_stages_move_nothing_between_their_devices() -> None:
    """A stage that each device runs for itself sends only what a device lacks, and no results."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        *(whole(f"s{k}", (name,), "left", "right", axis="everywhere")
          for k, name in enumerate(("first", "second", "mean"))),
    )  # fmt: skip
    assert moved(plan) == [("x", "left", "right", (0, 8))]


def test_partial_means_travel_instead_of_rows() -> None:
    """A mean over divided rows sends one sum of 2 numbers, not the rows."""
    spans = {"left": (0, 4), "right": (4, 8)}
    box = Region.full((1, 2, 8, 4))
    shards = tuple(Shard(device, {"b": box.with_axis(2, span)}) for device, span in spans.items())
    plan = make_plan(
        GRAPH,
        CLUSTER,
        rows("s0", ("first", "second"), "b", *spans.items()),
        Stage("s1", ("mean",), "rows", shards, (Shard("left"),)),
    )
    streams = build_layout(GRAPH, plan, CLUSTER).program.streams
    assert [(s.tensor.split("#")[0], s.wire_bytes) for s in streams] == [("x", 192), ("y", 8)]


@pytest.mark.parametrize(("in_flight", "credits"), [(1, (1, 1)), (2, (2, 2)), (8, (3, 2))])
def test_credit_covers_the_stages_that_a_skip_passes(
    in_flight: int, credits: tuple[int, int]
) -> None:
    """A skip over one stage may hold three requests, its neighbour two, never more than all."""
    graph = skip_graph()
    plan = make_plan(
        graph,
        CLUSTER,
        whole("s0", ("first",), "left"),
        whole("s1", ("second",), "left"),
        whole("s2", ("third",), "right"),
        in_flight=in_flight,
    )
    program = build_layout(graph, plan, CLUSTER).program
    found = {stream.tensor: stream.credit for stream in program.streams}
    assert (found["a"], found["b"]) == credits


def test_replicas_have_credit_for_all_requests() -> None:
    """With replicas every stream may hold all requests in flight, and each has its own route."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first", "second"), "left", "right", axis="replica"),
        whole("s1", ("mean",), "left"),
        in_flight=4,
    )
    program = build_layout(GRAPH, plan, CLUSTER).program
    assert program.routes == (2,)
    assert {(s.tensor, s.when, s.credit) for s in program.streams} == {
        ("x", ((0, 1),), 4),
        ("b", ((0, 1),), 4),
    }


def test_each_stream_has_both_ends_in_program_order() -> None:
    """A piece is received before the step that reads it and sent after the one that makes it."""
    program = build_layout(GRAPH, halves(GRAPH, CLUSTER), CLUSTER).program
    for part in program.devices:
        seen: set[int] = set()
        for step in part.steps:
            if isinstance(step, Receive):
                seen.add(step.write)
            elif isinstance(step, Compute):
                assert {b for read in step.reads for b in read.buffers} <= seen | _fed(part)
                seen.update(step.writes)
            elif isinstance(step, Send):
                assert step.read in seen | _fed(part)


def _fed(part: DeviceProgram) -> set[int]:
    return {step.write for step in part.steps if isinstance(step, Feed)}


def test_equal_works_share_a_fragment() -> None:
    """Two devices that compute the same box run the same fragment."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first", "second", "mean"), "left", "right", axis="everywhere"),
    )
    layout = build_layout(GRAPH, plan, CLUSTER)
    assert len(layout.works) == 1


def test_many_replicated_stages_in_a_row_compile() -> None:
    """Six of five replicas each are 15,625 ways; a device knows those of its neighbours."""
    graph, per_stage = make_chain(6), 5
    cluster = Cluster.of([Device(f"d{number}") for number in range(6 * per_stage)])
    stages = [
        whole(
            f"s{number}",
            (layer.name,),
            *(f"d{per_stage * number + replica}" for replica in range(per_stage)),
            axis="replica",
        )
        for number, layer in enumerate(graph.layers)
    ]
    compiled = compile_plan(graph, make_plan(graph, cluster, *stages), cluster)
    program = compiled.program
    assert program.routes == (per_stage,) * 6
    table = StepTable(program.device("d7"), program.streams)
    ways = product(range(per_stage), repeat=6)
    assert len({id(table.for_route(way)) for way in ways}) == per_stage**3
