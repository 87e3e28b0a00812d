"""What the requester keeps loaded for when others are lost."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from partita.cli.actions.fallback import add_fallback_plan
from partita.cli.inputs import draw_inputs
from partita.cli.output import Reply
from partita.cluster import Cluster, Device
from partita.compile import build_layout, check_plan, compile_plan, planned_graph
from partita.cost import CostModel
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES, together
from partita.errors import InfeasibleError, PlanError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.plan import Plan, dump_plan, load_plan
from partita.planners import PlanOptions, find_plan
from partita.planners.fallback import find_beside
from partita.simulation import predict
from tests.planners.edgecloud.cases import quantised_chain
from tests.planners.fakes import FakeCost

#: Of the camera: room for a plan in the cloud and for the network in bytes, or as it is.
TIGHT, WIDE = 32_000, 44_000


def _cost(camera_bytes: int, *, computes: bool = True) -> FakeCost:
    devices = [Device("camera", memory_bytes=camera_bytes, computes=computes), Device("cloud")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=1e7)
    return FakeCost(quantised_chain(8, 8, 16, 8, 4)[0], cluster, {"camera": 1e7, "cloud": 1e9})


def _options(*, samples: bool = True, **more: object) -> PlanOptions:
    data = quantised_chain(8, 8, 16, 8, 4)[1] if samples else None
    method = {"autosplit.most_error": "1e-3"}
    return PlanOptions(quantisation=data, method=method, fallback=True, **more)  # type: ignore[arg-type]


def _plan(cost: FakeCost, planner: str = "autosplit", **more: object) -> Plan:
    return find_plan(cost, planner=planner, options=_options(**more)).plan  # type: ignore[arg-type]


def _held_bytes(cost: FakeCost, *plans: Plan) -> int:
    """What the camera holds with several plans at the same time."""
    uses = []
    for plan in plans:
        graph = planned_graph(cost.graph, plan)
        uses.append(cost.of(graph).memory(build_layout(graph, plan, cost.cluster))["camera"])
    return together(uses).total


@pytest.mark.parametrize("planner", ["autosplit", "best", "cloud_only"])
@pytest.mark.parametrize("camera_bytes", [TIGHT, WIDE])
def test_the_camera_has_room_for_both(planner: str, camera_bytes: int) -> None:
    """The plan's own network where that fits, else in bytes; alone on the camera, and exact."""
    cost = _cost(camera_bytes)
    plan = _plan(cost, planner)
    fallback = plan.fallback
    assert fallback is not None
    assert {s.device for stage in fallback.stages for s in stage.shards} == {"camera"}
    assert "cloud" in {s.device for stage in plan.stages for s in stage.shards}
    assert _held_bytes(cost, plan, fallback) <= camera_bytes
    assert (fallback.bits == plan.bits) == (camera_bytes == WIDE)
    assert fallback.integer_kernels == (camera_bytes == TIGHT)
    check_plan(cost.graph, plan, cost.cluster)
    assert load_plan(dump_plan(plan)) == plan
    graph = planned_graph(cost.graph, fallback)
    compiled = compile_plan(cost.graph, fallback, cost.cluster)
    assert not compiled.program.streams or {s.source for s in compiled.program.streams} == {
        "camera"
    }
    pieces = check_exactness(graph, compiled, draw_inputs(cost.graph.input_specs, 1, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(graph)


def test_a_fallback_is_judged() -> None:
    """Its accuracy is in the plan, whatever it is: no threshold forbids it."""

    def judge(plan: Plan) -> float:
        return 0.4 if plan.integer_kernels else 0.8

    plan = _plan(_cost(TIGHT), "cloud_only", judge=judge)
    assert plan.fallback is not None
    assert plan.fallback.accuracy == 0.4


def test_a_fallback_that_is_sooner_tells_how_the_plan_may_be() -> None:
    """It has integer kernels and the plan has floats, far away: a line says which flag allows them.

    Not where the fallback is the plan's own network.
    """
    graph, _ = quantised_chain(8, 8, 16, 8, 4)
    for room_bytes, is_told in ((50_000, True), (10**6, False)):
        memory = room_bytes + PROCESS_BYTES + SESSION_BYTES
        camera = Device("camera", kind="raspberry-pi-3", memory_bytes=memory)
        devices = [camera, Device("cloud", kind="cloud-gpu")]
        cost = CostModel(graph, Cluster.of(devices, bandwidth_bytes_per_s=1e3))
        plan = find_plan(cost, planner="cloud_only", options=_options()).plan
        assert plan.fallback is not None
        assert plan.fallback.integer_kernels == is_told
        reply = Reply({}, [])
        add_fallback_plan(reply, cost, plan)
        assert reply.payload["fallback"]["latency_s"] < predict(cost, plan).latencies_s[0]
        assert ("--kernels integer" in " ".join(map(str, reply.shown))) == is_told


def test_what_is_planned_anew_leaves_the_fallback_its_room() -> None:
    """It stays as it is, and both fit."""
    cost = _cost(TIGHT)
    fallback = _plan(cost).fallback
    assert fallback is not None
    options = replace(_options(), fallback=False)
    again = find_beside(cost, fallback, lambda less: find_plan(less, options=options)).plan
    assert _held_bytes(cost, again, fallback) <= TIGHT


def test_without_room_or_where_it_may_not_be_there_is_none() -> None:
    """One line with what it needs: no plan is made that claims to have one."""
    with pytest.raises(InfeasibleError, match=r"fallback takes .* of the .*'camera': raise"):
        _plan(_cost(20_000))
    with pytest.raises(InfeasibleError, match="fallback takes"):
        _plan(_cost(TIGHT), "cloud_only", samples=False)
    with pytest.raises(InfeasibleError, match="requester 'camera' does not compute"):
        _plan(_cost(WIDE, computes=False))
    with pytest.raises(InfeasibleError, match="must not leave device 'cloud'"):
        _plan(_cost(WIDE), keep_on={"t2": "cloud"})


def test_a_fallback_that_needs_others_is_refused() -> None:
    """Also in a file that was edited."""
    cost = _cost(WIDE)
    plan = _plan(cost)
    assert plan.fallback is not None
    others = msgspec.structs.replace(plan.fallback, stages=_plan(cost, "cloud_only").stages)
    if others.model.hash != plan.fallback.model.hash:
        pytest.fail("the plan's own network was expected")
    edited = msgspec.structs.replace(plan, fallback=others)
    with pytest.raises(PlanError, match=r"fallback: .*'cloud', allowed: the requester 'camera'"):
        check_plan(cost.graph, edited, cost.cluster)
