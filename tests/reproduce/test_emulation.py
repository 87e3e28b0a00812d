"""This machine in place of other devices, and answers counted while a pipeline is full."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.lab import start_lab
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, Profile, measure_profile
from partita.reproduce.collaborative.real_runs import Served, draw_runs
from partita.reproduce.collaborative.replicas import claim_linear, replica_table, replicate, scale
from partita.reproduce.collaborative.setting import KINDS, PORT_BYTES_PER_S, make_fleet
from partita.reproduce.emulation import Rate, as_measured, emulate, measure_rate, whole_s
from partita.simulation import predict_period_s
from tests.reproduce.samples import small_graph

GRAPH = small_graph("small")
QUICK = MeasureOptions(repeats=3, rounds=1, budget_s=0.05)


@pytest.fixture(scope="module", name="profile")
def _profile() -> Profile:
    return measure_profile(GRAPH, QUICK)


def test_devices_and_ways_are_slowed_alike(profile: Profile) -> None:
    """Ratios among devices, and of computing to sending, are those of the catalogue."""
    devices = [
        Device("pi", kind="raspberry-pi-3", port_bytes_per_s=1e6),
        Device("nano", kind="jetson-nano"),
    ]
    known = Cluster.of(devices, bandwidth_bytes_per_s=2e6, latency_s=0.001)
    lab, scale = emulate(known, GRAPH, profile, cores=0.5)
    assert sum(1 / device.slow_down for device in lab.devices) == pytest.approx(0.5)
    catalogue, emulated = CostModel(GRAPH, known), CostModel(GRAPH, lab, profiles=profile)
    for name in known.names:
        assert whole_s(emulated, name) == pytest.approx(scale * whole_s(catalogue, name))
    link = lab.link("pi", "nano")
    assert link is not None
    assert link.bandwidth_bytes_per_s == pytest.approx(2e6 / scale)
    assert link.latency_s == pytest.approx(0.001 * scale)
    assert [port.bytes_per_s for port in link.ports] == [pytest.approx(1e6 / scale)]


@pytest.mark.slow
def test_a_pipeline_answers_as_often_as_its_busiest_device_allows(profile: Profile) -> None:
    """Four stages on four emulated boards: true answers, about as many as were predicted."""
    fleet, _ = emulate(make_fleet(KINDS[0], 4, swaps=False), GRAPH, profile, cores=0.02)
    cost = CostModel(GRAPH, fleet, profiles=profile)
    options = PlanOptions(
        "throughput",
        in_flight=8,
        devices=fleet.names[1:],
        method={"collaborative.replicas": "no", "collaborative.aim": "even"},
    )
    plan = find_plan(cost, planner="collaborative", options=options).plan
    assert len({shard.device for stage in plan.stages for shard in stage.shards}) > 1
    with start_lab(fleet) as lab:
        rate = measure_rate(lab.endpoint, cost, plan, least_s=0.1)
    assert rate.difference <= 1e-5
    layout = cost.layout(plan)
    durations = as_measured(cost, layout, rate)
    assert durations.compute_s == {step.step: step.p50_s for step in rate.steps}
    # Loose: the machine may be busy. Whether rates are right, `benchmarks.rates` measures.
    assert 0.5 < rate.per_second * cost.bottleneck_s(layout) < 1.5


def test_replicas_are_linear_until_the_senders_port_is_full() -> None:
    """Inputs of 49 kB leave by one port: boards that answer faster than that gain nothing."""
    graph = small_graph("wide", 64, (64, 64, 128, 128))
    port = PORT_BYTES_PER_S / (4 * 3 * 64 * 64)
    cluster = make_fleet(KINDS[0], 1)
    cost = CostModel(graph, cluster)
    alone = 1 / predict_period_s(cost, replicate(graph, cluster, ("worker-1",)))
    most = int(port / alone) + 2
    found = scale(graph, KINDS[0], [2, most])
    assert found[2].part == pytest.approx(1, abs=0.02)
    assert found[2].per_second == pytest.approx(2 * alone, rel=0.02)
    assert found[2].bound[0].startswith("worker-")
    assert found[most].bound == ("ends out", pytest.approx(port))
    assert found[most].per_second == pytest.approx(port, rel=0.02)
    claim = claim_linear(KINDS[0], "small", found)
    assert claim.holds == (found[most].part >= 0.95)
    assert claim_linear(KINDS[0], "small", {2: found[2]}).holds
    rows = replica_table("small", {KINDS[0]: found}).rows
    assert [row[1:3] for row in rows] == [(found[2].bound[0], 2), ("ends out", most)]


def test_runs_are_held_against_the_mean_of_random_ones() -> None:
    """Six times the mean of two draws bears out "up to 6x", less does not."""

    def fleet(ours: float) -> list[Served]:
        rates = [("collaborative", ours), ("random", 1.0), ("random", 3.0)]
        return [Served(name, 2, 1.1 * rate, rate, Rate(rate, 1e-7)) for name, rate in rates]

    drawn = draw_runs({("vgg16", 8): fleet(12.0), ("vgg16", 11): fleet(11.0)})
    assert [claim.holds for claim in drawn.claims] == [True, False]
    assert drawn.claims[0].source == "measurement"
    assert drawn.tables[0].rows[0] == pytest.approx(
        ("vgg16", "collaborative", 8, 2, 13.2, 12.0, 1.1, 0.1)
    )
    assert drawn.charts[0].series["random, measured"] == (2.0, 2.0)
