"""What messages, runs and requests cost on the workers in use."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.memory_lab import memory_lab
from tests.planners.fakes import make_chain

import partita as pt
from partita.cluster import Cluster, Device
from partita.cost import CostModel, CostOptions
from partita.leader import refine_cost
from partita.leader.fixed_costs import make_idle_program
from partita.profile import MeasureOptions
from partita.program import Program, TensorSpec, check_program

NAMES = ("a", "b", "c")


def make_cost(cluster: Cluster) -> tuple[CostModel, Program]:
    """A chain's cost on ``cluster``, and the program that runs it on one device."""
    graph = pt.load_graph(make_chain(2, height=8, channels=2, seed=1).to_model())
    profile = pt.measure_profile(graph, MeasureOptions(repeats=1, budget_s=0.01))
    cost = CostModel(graph, cluster, profiles=profile, options=CostOptions("float16"))
    plan = pt.find_plan(cost, planner="single").plan
    return cost, cost.layout(plan).program


def make_cluster() -> Cluster:
    """Three devices of this machine and fast links between all."""
    devices = [Device(name) for name in NAMES]
    return Cluster.of(devices, bandwidth_bytes_per_s=1e9, latency_s=0.0)


def test_costs_of_messages_and_runs_are_found_among_all_devices() -> None:
    """Every cost is some microseconds here; what the user asked for is kept."""
    cost, program = make_cost(make_cluster())
    with memory_lab(cost.cluster.devices) as lab:
        options = refine_cost(lab.endpoint, cost, program).options
    assert 0 < options.admit_s < 1
    assert 0 < options.send_s == options.receive_s < 0.1
    assert 0 <= options.compute_s < 0.1
    assert options.precision == "float16"


def test_where_a_link_is_missing_single_messages_count() -> None:
    """No message can go round; runs then cost what profiles say."""
    whole = make_cluster()
    cluster = replace(whole, links=tuple(x for x in whole.links if x.source != "b"))
    cost, program = make_cost(cluster)
    with memory_lab(cluster.devices) as lab:
        options = refine_cost(lab.endpoint, cost, program).options
    assert options.compute_s == 0
    assert options.admit_s > 0


@pytest.mark.parametrize(
    ("shape", "outputs", "low", "high"),
    [
        ((1, 3, 224, 224), [(1, 1000)], 3_500, 4_500),
        ((1, 3, 224, 224), [(1, 1000), (1, 64, 28, 28)], 200_000, 220_000),
        ((1, 3, 8, 8), [(1, 1000)], 768, 768),
        ((), [(1,)], 4, 4),
    ],
)
def test_the_program_without_work_answers_with_as_many_bytes(
    shape: tuple[int, ...], outputs: list[tuple[int, ...]], low: int, high: int
) -> None:
    """What comes back takes as long as the network's outputs, or all that there is to send."""
    _, program = make_cost(make_cluster())
    specs = tuple(TensorSpec(f"y{k}", item, "float32") for k, item in enumerate(outputs))
    inputs = (TensorSpec("x", shape, "float32"),)
    wanted = msgspec.structs.replace(program, inputs=inputs, outputs=specs)
    idle = make_idle_program(wanted)
    assert low <= idle.outputs[0].size_bytes <= high


def test_the_program_without_work_takes_any_number_of_inputs() -> None:
    """Steps and buffers of 200 inputs are told apart."""
    _, program = make_cost(make_cluster())
    inputs = tuple(TensorSpec(f"x{k}", (2, 2), "float32") for k in range(200))
    idle = make_idle_program(msgspec.structs.replace(program, inputs=inputs))
    assert check_program(idle) == []


@pytest.mark.parametrize("slow_down", [1.0, 4.0])
def test_a_run_costs_its_step_on_top_of_its_layers(slow_down: float) -> None:
    """The step's cost is that of the workers' runtime: no slow-down multiplies it again."""
    device = Device("a", slow_down=slow_down)
    cost, _ = make_cost(Cluster.of([device], bandwidth_bytes_per_s=1e9, latency_s=0.0))
    dear = CostModel(
        cost.graph, cost.cluster, profiles=cost.profiles, options=CostOptions(compute_s=0.25)
    )
    plan = pt.find_plan(cost, planner="single").plan
    extra_s = dear.busy_s(dear.layout(plan))["a"] - cost.busy_s(cost.layout(plan))["a"]
    assert extra_s == pytest.approx(0.25)
