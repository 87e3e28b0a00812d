"""Separable networks on devices: who computes what, what travels, and what is answered."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster
from partita.compile import account_layout, compile_plan
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.leader import DeployOptions, deploy
from partita.leader.substitutes import Substitutes
from partita.planners import Evaluator, PlanOptions, find_plan
from partita.planners.simple.branches import branch_drafts
from partita.planners.simple.chains import Tasks
from partita.planners.simple.paths import find_parts
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import Decision, Policy, silent
from partita.separable.traffic import count_traffic
from partita.simulation import simulate
from tests.adapting.runs import DEVICES, open_run
from tests.memory_lab import memory_lab
from tests.separable.placed import PI3, PI4, group_of, make_cost, place_groups, placed_plan
from tests.separable.policies import draw_policy

ARCHITECTURE = Architecture.parse("4x4d-20", groups=4, image=(3, 16, 16))
#: Every group sends in every window.
POLICY = Policy((Decision(9), Decision(16), Decision(7)), staleness=2)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Depth 20 in four groups, features one block late."""
    return load_graph(build_graph(ARCHITECTURE, POLICY))


@pytest.mark.parametrize(
    ("kinds", "latency_s", "rate"),
    [
        ((PI3,) * 4, 0.0, 37.5e6),
        ((PI3,) * 4, 2e-3, 37.5e6),
        ((PI3,) * 3, 1e-3, 12.5e6),
        ((PI4, PI3, PI3), 2e-4, 125e6),
        ((PI3, PI4), 1e-3, 37.5e6),
        ((PI3,) * 2, 0.05, 1e6),
    ],
)
def test_no_assignment_of_groups_is_better(
    graph: Graph, kinds: tuple[str, ...], latency_s: float, rate: float
) -> None:
    """Of all ways to give groups to devices, on equal and unequal ones, fast and slow links."""
    cost = make_cost(graph, *kinds, latency_s=latency_s, rate=rate)
    evaluator = Evaluator(cost, PlanOptions())
    tasks, names = Tasks(evaluator), evaluator.devices
    every = product(names, repeat=ARCHITECTURE.groups)
    least_s = min(evaluator.latency_of(place_groups(tasks, places)) for places in every)
    found_s = find_plan(cost, planner="branches").latency_s
    assert found_s <= least_s * (1 + 1e-9)


def test_four_devices_are_faster_than_one_at_two_milliseconds(graph: Graph) -> None:
    """Where transfers are hidden behind a block; list scheduling alone divides nothing there."""
    cost = make_cost(graph, *(PI3,) * 4, rate=125e6)
    alone_s = find_plan(cost, planner="single").latency_s
    best_s = find_plan(cost, options=PlanOptions(max_evaluations=100)).latency_s
    assert best_s <= find_plan(cost, planner="branches").latency_s < alone_s


def test_a_faster_device_has_more_groups(graph: Graph) -> None:
    """Three of four, where it is about three times as fast."""
    cost = make_cost(graph, PI3, PI4, latency_s=1e-4, rate=125e6)
    plan = find_plan(cost, planner="branches").plan
    held = {
        group_of(graph, layer): stage.shards[0].device
        for stage in plan.stages
        for layer in stage.layers
        if ".conv" in layer
    }
    assert Counter(held.values()) == {"d1": 3, "d0": 1}


def test_parts_are_found_by_what_is_exchanged() -> None:
    """Names of layers say nothing: where groups are silent but for few bytes they are the parts."""
    policy = Policy((Decision(9, 0), Decision(16, 0), Decision(7, 0)), 2, halves=True)
    graph = load_graph(build_graph(ARCHITECTURE, policy))
    tasks = Tasks(Evaluator(make_cost(graph, *(PI3,) * 4, latency_s=0.0), PlanOptions()))
    order = tasks.evaluator.outline.order
    groups = [group_of(graph, order[task.start]) for task in tasks.all]
    pairs = set(zip(groups, find_parts(tasks), strict=True))
    assert len(pairs) == len(dict(pairs)) == ARCHITECTURE.groups


def test_a_network_without_messages_is_one_part() -> None:
    """Only what the answer needs is there: one group, and nothing to place beside it."""
    graph = load_graph(build_graph(ARCHITECTURE, silent(ARCHITECTURE)))
    evaluator = Evaluator(make_cost(graph, PI3, PI3), PlanOptions())
    assert {group_of(graph, name) for name in evaluator.outline.order} == {0}
    assert set(find_parts(Tasks(evaluator))) == {0}
    assert branch_drafts(evaluator) == []


@pytest.mark.parametrize("staleness", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_what_travels_is_what_is_counted(seed: int, staleness: int) -> None:
    """Bytes between devices with a group each, for drawn policies, casts and shares included."""
    policy = draw_policy(ARCHITECTURE, random.Random(seed), staleness)
    graph = load_graph(build_graph(ARCHITECTURE, policy))
    cost = make_cost(graph, *(PI3,) * 4)
    layout = cost.layout(placed_plan(cost, cost.cluster.names))
    ends = {*graph.inputs, *graph.outputs}
    moved = [one.wire_bytes for one in layout.program.streams if one.tensor not in ends]
    assert sum(moved) == count_traffic(ARCHITECTURE, policy).needed_bytes


def _assignments(groups: int) -> list[tuple[int, ...]]:
    """All ways to give groups to devices that are alike."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(groups):
        found = [(*one, d) for one in found for d in range(1 + max(one, default=-1) + 1)]
    return found


@pytest.mark.parametrize("places", _assignments(4))
def test_every_assignment_answers_the_same(places: tuple[int, ...]) -> None:
    """As the whole network does, with shares of channels as 16-bit floats."""
    architecture = Architecture.parse("4x2d-20", groups=4, classes=3, image=(3, 8, 8))
    policy = Policy((Decision(9, 4), Decision(22, 8), Decision(16, 0)), 2, halves=True)
    graph = load_graph(build_graph(architecture, policy))
    cost = make_cost(graph, *(PI3,) * 4)
    plan = placed_plan(cost, [f"d{number}" for number in places])
    (inputs,) = draw_inputs(graph.input_specs, 1, 0)
    (found,) = run_program(compile_plan(graph, plan, cost.cluster), inputs)[0].values()
    whole = onnxruntime.InferenceSession(graph.to_model().SerializeToString())
    (expected,) = whole.run(None, inputs)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_stale_features_travel_while_the_next_block_is_computed(graph: Graph) -> None:
    """Each message has left before the block behind it ends, and no device waits for it."""
    cost = make_cost(graph, *(PI3,) * 4, latency_s=0.0, rate=1.25e9)
    layout = cost.layout(placed_plan(cost, cost.cluster.names))
    spans = simulate(layout.program, cost.price(layout)).spans
    first, second = "stage0.block0", "stage0.block1"
    for device in cost.cluster.names:
        mine = [span for span in spans if span.device == device]
        sends = [s for s in mine if s.lane.startswith("send") and f"{first}.relu.g" in s.label]
        behind = [s for s in mine if s.lane == "compute"][1]
        assert [send.start_s for send in sends] == [behind.start_s], (device, second)
        assert sends[0].end_s < behind.end_s


def test_devices_hold_what_their_groups_hold(graph: Graph) -> None:
    """All together the same, whoever has the groups; the one with most of it less and less."""
    cost = make_cost(graph, *(PI3,) * 4)
    totals, most = [], []
    for count in (1, 2, 4):
        names = [f"d{group % count}" for group in range(ARCHITECTURE.groups)]
        account = account_layout(graph, cost.layout(placed_plan(cost, names)))
        totals.append((account.macs, account.weight_bytes))
        most.append(max((one.macs, one.weight_bytes) for one in account.devices.values()))
    assert len(set(totals)) == 1
    assert most[0] > most[1] > most[2]


def test_answers_go_on_without_a_lost_devices_messages(tmp_path: Path, graph: Graph) -> None:
    """As the network answers whose group sends nothing, from the loss on, and nothing moves."""
    cost = make_cost(graph, *(PI3,) * 4)
    rest = load_graph(build_graph(ARCHITECTURE, POLICY.without(2)))
    compiled, other = (
        compile_plan(of, placed_plan(cost.of(of), cost.cluster.names), cost.cluster)
        for of in (graph, rest)
    )
    wholes = [onnxruntime.InferenceSession(g.to_model().SerializeToString()) for g in (graph, rest)]
    (feeds,) = draw_inputs(graph.input_specs, 1, 0)
    expected = [whole.run(None, feeds)[0] for whole in wholes]
    assert np.abs(expected[0] - expected[1]).max() > 1e-3 * np.abs(expected[0]).max()
    substitutes = Substitutes(compiled.program, {"d2": other})
    with (
        memory_lab(cost.cluster.devices, store=tmp_path) as lab,
        deploy(compiled, lab.endpoint, DeployOptions(wait_s=0.5), replan=substitutes) as session,
    ):
        for number in (0, 1):
            (answer,) = session.run([feeds])
            (got,) = answer.values()
            np.testing.assert_allclose(got, expected[number], atol=1e-4 * np.abs(expected[0]).max())
            if not number:
                lab.fabric.kill("d2")
        assert [change.outcome for change in session.changes] == ["recovered"]
        assert {part.device for part in session.program.devices} == {"d0", "d1", "d3"}


def test_a_lost_devices_groups_move(tmp_path: Path, graph: Graph) -> None:
    """The others take them over, and every answer is the network's."""
    cluster = Cluster.of(DEVICES, bandwidth_bytes_per_s=125e6, latency_s=0.0)
    with open_run(cluster, tmp_path, graph=graph, planner="branches") as run:
        run.until(lambda: set(run.session.covered) == {"d1", "d2"})
        assert run.used == {"d0", "d1", "d2"}
        run.lab.fabric.kill("d2")
        run.until(lambda: "recovered" in run.outcomes())
        assert run.used == {"d0", "d1"}
