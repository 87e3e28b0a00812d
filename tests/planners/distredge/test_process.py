"""The split process: its time is the simulation's, volume by volume and at the end."""

from __future__ import annotations

import random

import pytest

from partita.compile import build_layout
from partita.compile.check import check_plan
from partita.planners.distredge.actions import action_of, cut_rows
from partita.planners.distredge.process import Cuts, SplitProcess
from partita.planners.distredge.starts import start_plans
from partita.simulation import simulate
from tests.planners.distredge.small import OTHER_GRAPHS, small_cost, small_process
from tests.planners.fakes import unlinked


def _draw(process: SplitProcess, rng: random.Random) -> list[Cuts]:
    inner = len(process.devices) - 1
    return [
        (0, *sorted(rng.randint(0, height) for _ in range(inner)), height)
        for height in process.heights
    ]


def _computed(process: SplitProcess, decisions: list[Cuts]) -> list[dict[str, float]]:
    """Return per volume when each device had computed its part, as simulated."""
    evaluator = process.evaluator
    layout = build_layout(
        evaluator.graph, evaluator.problem.plan(process.draft(decisions)), evaluator.cluster
    )
    report = simulate(layout.program, evaluator.cost.price(layout))
    found: dict[str, dict[str, float]] = {}
    for span in report.spans:
        if span.lane == "compute" and " rows " in span.label:
            found.setdefault(span.label.split()[0], {})[span.device] = span.end_s
    return [found[name] for name in sorted(found, key=lambda n: int(n.split("-")[1]))]


@pytest.mark.parametrize("seed", range(5))
def test_latency_of_a_whole_plan_is_the_simulations(seed: int) -> None:
    """What an episode ends with is what the simulation says of the plan."""
    process = small_process(small_cost(2 + seed % 3))
    decisions = _draw(process, random.Random(seed))
    evaluator = process.evaluator
    plan = evaluator.problem.plan(process.draft(decisions))
    check_plan(evaluator.graph, plan, evaluator.cluster)
    layout = build_layout(evaluator.graph, plan, evaluator.cluster)
    report = simulate(layout.program, evaluator.cost.price(layout))
    assert process.latency_s(decisions) == pytest.approx(report.latencies_s[0], rel=1e-9)


def test_accumulated_latencies_are_the_simulations() -> None:
    """After each volume every device has finished when the simulated whole plan says so."""
    process = small_process(small_cost(4))
    same = total = 0
    for seed in range(8):
        decisions = _draw(process, random.Random(seed))
        ends = dict.fromkeys(process.devices, 0.0)
        for number, computed in enumerate(_computed(process, decisions), start=1):
            ends |= computed
            latencies = process.latencies(decisions[:number])
            total += len(latencies)
            same += sum(
                latency == pytest.approx(end, rel=1e-9)
                for latency, end in zip(latencies, ends.values(), strict=True)
            )
    # A device without a part of a volume may compute the next one early; then orders differ.
    assert same >= 0.95 * total


@pytest.mark.parametrize("name", OTHER_GRAPHS)
def test_any_network_can_be_split(name: str) -> None:
    """Branches and means over space between volumes make sound plans of the simulated latency."""
    process = small_process(small_cost(3, OTHER_GRAPHS[name]()))
    decisions = _draw(process, random.Random(3))
    evaluator = process.evaluator
    plan = evaluator.problem.plan(process.draft(decisions))
    check_plan(evaluator.graph, plan, evaluator.cluster)
    layout = build_layout(evaluator.graph, plan, evaluator.cluster)
    report = simulate(layout.program, evaluator.cost.price(layout))
    assert process.latency_s(decisions) == pytest.approx(report.latencies_s[0], rel=1e-9)
    assert len(process.latencies(decisions[:1])) == 3


def test_the_rest_runs_where_most_of_the_last_volume_is() -> None:
    """The device with most rows of the last volume runs what follows it."""
    process = small_process()
    decisions = [(0, height, height, height) for height in process.heights]
    last = process.heights[-1]
    assert process.tail_device((0, 1, last, last)) == "d1"
    assert process.tail_device((0, 0, last // 2, last)) in ("d1", "d2")
    assert {stage.axis for stage in process.draft(decisions)} == {"rows"}


def test_devices_without_links_make_plans_impossible() -> None:
    """A plan that needs a link that is not there takes forever, and the reason names it."""
    process = small_process(unlinked(small_cost().graph))
    decisions = [(0, height // 3, 2 * height // 3, height) for height in process.heights]
    assert process.latency_s(decisions) == float("inf")
    reason = process.explain(decisions)
    assert reason is not None
    assert "no such link" in reason.message
    assert all(seconds >= 0 for seconds in process.latencies(decisions[:1]))


def test_plans_by_simple_rules_begin_with_equal_shares() -> None:
    """Equal shares, shares by speed, and each device alone are among the starts, each once."""
    process = small_process()
    starts = start_plans(process)
    alone = [
        tuple((0, *(h if n <= k else 0 for k in range(2)), h) for h in process.heights)
        for n in range(3)
    ]
    assert len(set(starts)) == len(starts)
    assert set(alone) <= set(starts)
    height = process.heights[0]
    assert starts[0][0] == (0, round(height / 3), round(2 * height / 3), height)


@pytest.mark.parametrize("height", [1, 7, 224])
def test_cuts_become_actions_and_back(height: int) -> None:
    """Any cuts come back from the action that means them."""
    rng = random.Random(height)
    for _ in range(20):
        cuts = (0, *sorted(rng.randint(0, height) for _ in range(5)), height)
        assert cut_rows(action_of(cuts), height) == cuts
