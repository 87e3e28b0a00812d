"""Plans with bits under an uplink that changes: cut anew, in the same bits or in others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import msgspec
import numpy as np
import pytest
from tests.planners.edgecloud.cases import quantised_chain

from partita.adapting.finder import make_finder
from partita.adapting.methods import make_method
from partita.adapting.replanner import Replanner, predict_s
from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device, Link
from partita.compile import compile_plan, planned_graph
from partita.cost import CostModel, update_cost
from partita.exactness.compare import check_exactness, tolerance_of
from partita.execution import AdaptOptions, Conditions
from partita.graph import Graph
from partita.leader import Lost
from partita.plan import Identity, Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import QuantisationData
from partita.simulation import plan_key, simulate_adaptive

NAMES = ("camera", "cloud")
FAST, SLOW = 30e6, 5e6
BOUND = 1e-3


def _network() -> tuple[Graph, QuantisationData]:
    return quantised_chain(8, 32, 2, 64, 64, 1, size=64)


def _cost(rate: float = FAST, *, trace: tuple[tuple[float, float], ...] = ()) -> CostModel:
    """A small board and a fast server."""
    links = [
        Link(*ends, rate, 1e-5, trace=trace) for ends in product(NAMES, NAMES) if len({*ends}) > 1
    ]
    devices = [Device("camera", "raspberry-pi-3"), Device("cloud", "cloud-gpu")]
    return CostModel(_network()[0], Cluster.of(devices, links=links))


def _options() -> PlanOptions:
    method = {"autosplit.most_error": str(BOUND)}
    return PlanOptions(quantisation=_network()[1], method=method)


def _plan(cost: CostModel) -> Plan:
    return find_plan(cost, planner="autosplit", options=_options()).plan


def _on_camera(plan: Plan) -> set[str]:
    return {n for s in plan.stages if s.shards[0].device == "camera" for n in s.layers}


def test_the_cut_and_the_bits_follow_the_uplink() -> None:
    """In a simulated run: each plan is within the bound, and requests take less than unchanged."""
    cost = _cost(trace=((20.0, SLOW), (60.0, FAST)))
    options = AdaptOptions(hold_s=1.0, pause_s=1.0)
    adapting = make_method("autosplit", options=_options(), adapt=options, search_s=0.5)
    never = make_method(
        "autosplit", options=_options(), adapt=AdaptOptions(threshold=float("inf")), search_s=0.5
    )
    run, fixed = (
        simulate_adaptive(cost, method, duration_s=100.0, interval_s=0.25)
        for method in (adapting, never)
    )
    assert len(fixed.plans) == 1
    cuts = [len(_on_camera(plan)) for plan in run.plans]
    assert len(cuts) >= 3
    assert cuts[1] > cuts[0]
    assert cuts[-1] == cuts[0]
    assert run.plans[1].bits != run.plans[0].bits
    graph, data = _network()
    assert all(data.error_of(graph, plan.bits) <= BOUND for plan in run.plans)
    assert run.mean_between(25, 60) < 0.9 * fixed.mean_between(25, 60)
    assert run.mean_between(0, 20) == pytest.approx(fixed.mean_between(0, 20))


def test_a_proposal_in_other_bits_is_priced_compiled_and_exact() -> None:
    """The leader's planner: what runs is quantised as its plan says, no worse than the first."""
    cost = _cost()
    graph, data = _network()
    first = _plan(cost)
    finder = make_finder(first, "autosplit", quantisation=data)
    replanner = Replanner(cost.of_plan(first), first, finder)
    slow = Conditions(dict.fromkeys(cost.links, SLOW), dict.fromkeys(NAMES, 1.0))
    proposed = replanner.propose(slow)
    replanner.adopt(proposed.key)
    second = replanner.plan
    assert second.bits != first.bits
    assert data.error_of(graph, second.bits) <= BOUND
    model = update_cost(cost, slow)
    assert proposed.predicted_s == pytest.approx(predict_s(model.of_plan(second), second))
    assert proposed.present_s == pytest.approx(predict_s(model.of_plan(first), first))
    compiled = replanner.compile(proposed.key)
    assert compiled.program.plan_hash
    assert replanner.plan_of(compiled.program.plan_hash) == second
    quantised = planned_graph(graph, second)
    pieces = check_exactness(quantised, compiled, draw_inputs(graph.input_specs, 1, 5))
    assert max(piece.relative for piece in pieces) <= tolerance_of(quantised)
    assert replanner.held_bytes([compiled.program])["camera"] > 0
    assert min(replanner.expect(proposed.key).compute_s.values()) > 0


@pytest.mark.parametrize("planner", ["best", "autosplit"])
def test_without_samples_the_bits_stay(planner: str) -> None:
    """The cut moves; what is computed is the same, whatever the uplink."""
    cost = _cost()
    first = _plan(cost)
    assert first.bits
    model = update_cost(cost.of_plan(first), Conditions(dict.fromkeys(cost.links, SLOW / 100)))
    again = make_finder(first, planner)(model)
    assert again.bits == first.bits
    assert again.model == first.model
    assert len(_on_camera(again)) > len(_on_camera(first))


def test_a_plan_in_anothers_place_keeps_what_is_beside_the_decision() -> None:
    """Other bits and another cut, on the same kernels; files, samples and fallback stay."""
    cost = _cost()
    asked = replace(_options(), integer_kernels=True, fallback=True)
    found = find_plan(cost, planner="autosplit", options=asked).plan
    assert found.options is not None
    first = msgspec.structs.replace(
        found,
        model=Identity(found.model.name, found.model.hash, "net.onnx"),
        cluster=Identity(found.cluster.name, found.cluster.hash, "lab.toml"),
        options=msgspec.structs.replace(found.options, samples=("photos",), judge="own:judge"),
    )
    find = make_finder(first, "autosplit", quantisation=_network()[1])
    again = find(update_cost(cost, Conditions(dict.fromkeys(cost.links, SLOW))))
    assert again.bits != first.bits
    assert again.integer_kernels
    assert first.integer_kernels
    assert again.model.path == "net.onnx"
    assert again.cluster.path == "lab.toml"
    assert again.options == first.options
    assert again.fallback == first.fallback


def test_kernels_tell_plans_apart() -> None:
    """The same stages and bits on others answer otherwise."""
    plan = _plan(_cost())
    other = msgspec.structs.replace(plan, integer_kernels=not plan.integer_kernels)
    assert plan_key(plan) != plan_key(other)


def test_what_a_judge_refuses_is_not_proposed() -> None:
    """The drop that the plan was asked for holds for what comes after it."""
    cost = _cost()
    first = _plan(cost)
    refuse = make_finder(
        first, "autosplit", quantisation=_network()[1], judge=lambda plan: float(not plan.bits)
    )
    assert not refuse(cost.of_plan(first)).bits


def test_after_a_loss_the_fallback_runs_and_is_known() -> None:
    """No search is made; the plan in force is the fallback, its program what was loaded."""
    cost = _cost()
    plan = find_plan(cost, planner="autosplit", options=replace(_options(), fallback=True)).plan

    def fail(model: CostModel) -> Plan:
        raise AssertionError("a search was made")

    replanner = Replanner(cost.of_plan(plan), plan, fail)
    compiled = replanner.recover(Lost(("cloud",)))
    assert replanner.stood_by
    assert replanner.plan == plan.fallback == replanner.plan_of(compiled.program.plan_hash)
    assert plan.fallback is not None
    assert compiled.program == compile_plan(cost.graph, plan.fallback, cost.cluster).program
    assert np.isfinite(replanner.predict(2).latencies_s).all()
