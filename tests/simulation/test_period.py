"""Seconds per answer under steady load, against figures worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.planners.fakes import make_chain
from tests.program_builder import ProgramBuilder, chain
from tests.simulation.test_simulate import all_links, unit_durations

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.execution import Durations, Link
from partita.plan import Shard, Stage
from partita.planners import PlanOptions, find_plan
from partita.program import Compute, Program
from partita.simulation import (
    OutOfTimeError,
    Until,
    answer_period_s,
    predict_period_s,
    simulate,
)

#: The second replica takes three times as long as the first.
SECONDS = {"d1": 1.0, "d2": 3.0}


def replicas(*shares: int, in_flight: int = 4) -> Program:
    """Two replicas of one stage, for a requester that computes nothing."""
    build = ProgramBuilder(3, in_flight=in_flight, routes=(2,))
    build.shares = (shares,) if shares else ()
    piece, results = build.feed(), []
    for choice, name in enumerate(SECONDS):
        when = ((0, choice),)
        copy = build.send(piece, name, credit=in_flight, when=when)
        part = build.compute(name, [[copy]], "t", when=when)
        results.append(build.send(part, "d0", credit=in_flight))
    build.deliver([results])
    return build.build()


def durations(program: Program) -> Durations:
    """What each replica takes, on links that cost nothing."""
    seconds = {
        step.id: SECONDS[part.device]
        for part in program.devices
        for step in part.steps
        if isinstance(step, Compute)
    }
    return Durations(seconds, links=all_links(program, Link("a", "b", float("inf"))))


@pytest.mark.parametrize("shares", [(3, 1), (6, 2), ()])
def test_replicas_by_speed_answer_as_often_as_all_of_them_can(shares: tuple[int, ...]) -> None:
    """Three answers of the fast one to one of the slow one: four in three seconds."""
    program = replicas(*shares)
    assert answer_period_s(program, durations(program)) == pytest.approx(0.75)


@pytest.mark.parametrize(("shares", "expected"), [((1, 1), 0.75), ((1, 3), 0.75), ((9, 1), 0.9)])
def test_too_large_a_share_of_a_slow_replica_holds_nobody_up(
    shares: tuple[int, ...], expected: float
) -> None:
    """What it is behind with it passes on; of too small a share it gets no more."""
    program = replicas(*shares, in_flight=8)
    assert answer_period_s(program, durations(program)) == pytest.approx(expected)


def test_a_plan_is_priced_by_the_shares_it_gives() -> None:
    """Not by the turns that a replica with too much would pass on: right shares are the best."""
    pis = [Device(name, kind="raspberry-pi-3") for name in ("d0", "d1")]
    cost = CostModel(make_chain(3), Cluster.of(pis, bandwidth_bytes_per_s=1e9, latency_s=0.0))
    alone = find_plan(cost, planner="single", options=PlanOptions(in_flight=8)).plan
    layers = tuple(layer.name for layer in cost.graph.layers)
    stage = Stage("all", layers, "replica", tuple(map(Shard, cost.cluster.names)))

    def period_s(*shares: int) -> float:
        return predict_period_s(cost, replace(alone, stages=(replace(stage, shares=shares),)))

    assert period_s(3, 1) == pytest.approx(1.5 * period_s(1, 1), rel=0.02)
    assert period_s(9, 1) == pytest.approx(1.8 * period_s(1, 1), rel=0.02)
    assert period_s() == pytest.approx(period_s(1, 1), rel=0.02)


def test_by_speed_a_batch_ends_sooner_than_by_queue() -> None:
    """By the shortest queue the slow one has two of four requests waiting when inputs run out."""
    by_share, by_queue = (
        simulate(program, durations(program), requests=12)
        for program in (replicas(3, 1), replicas())
    )
    assert by_share.makespan_s == 9.0
    assert by_queue.makespan_s == 12.0
    assert max(by_share.latencies_s) < max(by_queue.latencies_s)


def test_one_at_a_time_the_period_is_the_latency() -> None:
    """A pipeline of three seconds: an answer every second, or every three with one in flight."""
    program = chain(3, 3, in_flight=3, credit=3)
    spec = unit_durations(program)
    assert answer_period_s(program, spec) == 1.0
    assert answer_period_s(program, spec, in_flight=1) == 3.0


def test_once_it_is_enough_the_last_look_counts_or_what_was_known() -> None:
    """Of a simulation that is ended early: nothing of its own before the first look is over."""
    program = replicas(9, 1)
    exact = answer_period_s(program, durations(program))
    at_once = Until(is_enough=lambda: True, known_s=7.0)
    assert answer_period_s(program, durations(program), until=at_once) == 7.0
    asked = iter(range(10**6))
    later = Until(close=0.0, is_enough=lambda: next(asked) > 30, known_s=7.0)
    assert answer_period_s(program, durations(program), until=later) == pytest.approx(
        exact, rel=0.1
    )
    with pytest.raises(OutOfTimeError):
        answer_period_s(program, durations(program), until=Until(is_over=lambda: True))
