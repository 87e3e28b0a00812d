"""Integer kernels that are asked for: search, memory, judge and program speak of the same."""

from __future__ import annotations

import re
from itertools import product

import pytest

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device, Link
from partita.compile import compile_plan, planned_graph
from partita.cost import CostModel
from partita.cost.memory import PROCESS_BYTES, SESSION_BYTES
from partita.errors import InfeasibleError
from partita.exactness.compare import check_exactness, tolerance_of
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import Evaluator, PlanOptions, Result, find_plan
from partita.planners.edgecloud.quantised_split import EdgeBits, quantised_draft
from partita.planners.edgecloud.roles import find_roles
from partita.planners.edgecloud.split_problem import Split
from partita.quantisation import QuantisationData
from tests.planners.edgecloud.cases import quantised_chain

Network = tuple[Graph, QuantisationData]
NAMES = ("camera", "gateway", "cloud")
#: 161 thousand weights: 645 kB as floats; nothing else is as large.
WIDE = quantised_chain(8, 64, 256, 4, size=4)


def _cost(
    room_bytes: int,
    rate: float = 1e3,
    names: tuple[str, ...] = NAMES[::2],
    network: Network = WIDE,
) -> CostModel:
    """Return a small board with so much memory beside what any worker takes, and faster devices."""
    links = [Link(*ends, rate, 1e-4) for ends in product(names, names) if len({*ends}) > 1]
    kinds = {"camera": "raspberry-pi-3", "gateway": "raspberry-pi-4", "cloud": "cloud-gpu"}
    memory = room_bytes + PROCESS_BYTES + SESSION_BYTES
    devices = [
        Device(name, kinds[name], memory_bytes=memory if name == "camera" else 10**9)
        for name in names
    ]
    return CostModel(network[0], Cluster.of(devices, links=links))


def _options(*, integer: bool, network: Network = WIDE, **more: object) -> PlanOptions:
    method = {"autosplit.most_error": "1e9"}
    return PlanOptions(
        quantisation=network[1],
        integer_kernels=integer,
        max_evaluations=100,
        **{"method": method, **more},  # type: ignore[arg-type]
    )


def _on_camera(plan: Plan) -> set[str]:
    return {n for s in plan.stages if s.shards[0].device == "camera" for n in s.layers}


def _plan(planner: str, cost: CostModel, *, integer: bool, **more: object) -> Result:
    return find_plan(cost, planner=planner, options=_options(integer=integer, **more))


@pytest.mark.parametrize("planner", ["autosplit", "tiers"])
def test_memory_for_bytes_alone_holds_the_network(planner: str) -> None:
    """As floats it has no room on the camera; on integer kernels it has, and answers the same."""
    cost = _cost(400_000, names=NAMES if planner == "tiers" else NAMES[::2])
    floats, bytes_ = (_plan(planner, cost, integer=integer) for integer in (False, True))
    names = {layer.name for layer in cost.graph.layers}
    assert not names <= _on_camera(floats.plan)
    assert names <= _on_camera(bytes_.plan)
    assert bytes_.plan.integer_kernels
    assert bytes_.latency_s < floats.latency_s
    own = cost.of_plan(bytes_.plan)
    held = own.memory(own.layout(bytes_.plan))["camera"].total
    assert held == bytes_.estimate.memory_bytes["camera"]
    assert held <= cost.cluster.device("camera").memory_bytes
    quantised = planned_graph(cost.graph, bytes_.plan)
    assert quantised.integer
    compiled = compile_plan(cost.graph, bytes_.plan, cost.cluster)
    pieces = check_exactness(quantised, compiled, draw_inputs(cost.graph.input_specs, 1, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(quantised)


@pytest.mark.parametrize(("planner", "setting"), [("edge_only", "bits"), ("qdmp", "bits")])
def test_rivals_of_one_width_take_the_kernels_too(planner: str, setting: str) -> None:
    """What they quantise runs as it was asked for."""
    result = _plan(planner, _cost(10**9), integer=True, method={f"{planner}.{setting}": "8"})
    assert result.plan.bits
    assert result.plan.integer_kernels


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("room_bytes", [60_000, 120_000, 200_000, 300_000, 500_000])
def test_no_cut_of_one_width_that_fits_is_sooner(room_bytes: int, *, integer: bool) -> None:
    """The search counts memory as the price does: what it looks at is not all too large."""
    network = quantised_chain(64, 64, 32, 256, 8, 256, 4, size=8)
    cost = _cost(room_bytes, 1e5, network=network)
    options = _options(integer=integer, network=network)
    result = find_plan(cost, planner="autosplit", options=options)
    evaluator = Evaluator(cost, options)
    roles, order = find_roles(evaluator), evaluator.outline.order
    bits = EdgeBits(cost.graph, network[1], 8, has_floats=True)
    for cut, width in product(range(len(order) + 1), (4, 8)):
        table = bits.table(order, Split.uniform(cut, width))
        quantised, draft = quantised_draft(evaluator, roles, order[:cut], table)
        assert result.latency_s <= quantised.latency_of(draft) * (1 + 1e-9)


def test_a_judge_hears_of_the_kernels() -> None:
    """What is judged is what runs."""
    heard: list[bool] = []

    def judge(plan: Plan) -> float:
        if plan.bits:
            heard.append(plan.integer_kernels)
        return 1.0

    method: dict[str, str] = {}
    result = _plan("autosplit", _cost(400_000), integer=True, judge=judge, method=method)
    assert result.plan.bits
    assert heard
    assert all(heard)


def test_an_edge_without_room_for_a_worker_is_told() -> None:
    """What is missing is not weights: how much any worker takes is said, with a plan or without."""
    cost = _cost(-PROCESS_BYTES, 1e6)
    least = r"'camera'.* has \d+ kB.* a worker takes \d\.\d+ MB before any weights"
    (reason,) = [line for line in _plan("autosplit", cost, integer=True).advice if "worker" in line]
    assert re.search(least, reason)
    with pytest.raises(InfeasibleError, match=least):
        _plan("autosplit", cost, integer=True, keep_on={"t0": "camera"})


def test_what_a_worker_leaves_of_an_edge_is_told() -> None:
    """Choices are held against that, not against all that the device has."""
    (room,) = [
        line for line in _plan("autosplit", _cost(400_000), integer=True).advice if "left" in line
    ]
    assert re.search(r"of the \d\.\d+ MB of memory of device 'camera' a worker takes", room)
    assert room.endswith("400 kB are left for weights and tensors")


def test_devices_that_are_both_too_small_are_one_line() -> None:
    """No cut and no width helps: no plan, and how much is missing on which device."""
    cost = _cost(1000)
    small = cost.on(cost.cluster.with_memory("cloud", PROCESS_BYTES + 300_000))
    for integer in (False, True):
        with pytest.raises(InfeasibleError, match=r"No plan (is possible|found).*'cloud'") as told:
            _plan("autosplit", small, integer=integer)
        assert "\n" not in str(told.value)
