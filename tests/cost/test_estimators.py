"""One examination for all estimators, and what each does apart."""

from __future__ import annotations

import pytest

from partita.cluster import find_entry
from partita.cost import ESTIMATORS, Amounts, Sources, make_estimator
from partita.cost.amount import Amount
from partita.cost.estimators import UNLEARNED
from partita.errors import ClusterError
from partita.graph import Graph
from partita.profile import LayerProfile, Profile, Sample
from tests.cost.fakes import FIXED, WHOLE_S, conv_graph, straight_profile

NAMES = tuple(ESTIMATORS)


def sources(graph: Graph, profile: Profile | None = None, kind: str | None = None) -> Sources:
    """Return what estimators learn from."""
    entry = find_entry(kind) if kind else None
    array = find_entry("eyeriss").array if kind else None
    return Sources("dev", Amounts(graph).layers, profile, entry, array=array)


@pytest.mark.parametrize("name", NAMES)
def test_curves_start_at_zero_and_never_fall(name: str) -> None:
    """Seconds are 0 for no rows, never negative, and do not fall with rows."""
    graph = conv_graph()
    estimator = make_estimator(name, sources(graph, straight_profile(graph), "jetson-nano"))
    for amount in Amounts(graph).layers.values():
        curve = list(estimator.curve(amount))
        assert len(curve) == amount.rows + 1
        assert curve[0] == 0.0
        assert curve[1] > 0.0
        assert curve == sorted(curve)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNLEARNED])
def test_learned_estimators_find_a_straight_line(name: str) -> None:
    """Where the device is linear in rows, all that learn from its profile agree with it."""
    graph = conv_graph()
    estimator = make_estimator(name, sources(graph, straight_profile(graph)))
    curve = list(estimator.curve(Amounts(graph).layers["c1"]))
    assert curve[16] == pytest.approx(WHOLE_S, rel=0.02)
    for rows in (2, 6, 12):
        wanted = WHOLE_S * (FIXED + (1 - FIXED) * rows / 16)
        assert curve[rows] == pytest.approx(wanted, rel=0.4 if name == "knn" else 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_missing_sources_are_cluster_errors(name: str) -> None:
    """Without profile and catalogue entry an estimator says what it needs."""
    graph = conv_graph()
    amount = Amounts(graph).layers["c0"]
    with pytest.raises(ClusterError, match="'dev'"):
        make_estimator(name, sources(graph)).curve(amount)


def test_table_is_exact_where_measured_and_straight_between() -> None:
    """The table gives back what was measured, and the line between two extents."""
    graph = conv_graph()
    profile = straight_profile(graph)
    samples = (Sample(2, 0.002, 5, 0.0), Sample(8, 0.004, 5, 0.0), Sample(16, 0.020, 5, 0.0))
    profile.layers["c0"] = LayerProfile("Conv", 16, False, samples)
    curve = make_estimator("table", sources(graph, profile)).curve(Amounts(graph).layers["c0"])
    assert [curve[rows] for rows in (2, 8, 16)] == [0.002, 0.004, 0.020]
    assert curve[5] == pytest.approx(0.003)
    assert curve[12] == pytest.approx(0.012)
    assert curve[1] == pytest.approx(0.002 - 0.002 / 6)


def test_table_takes_noise_out_of_the_order() -> None:
    """An extent that noise made slower than a larger one is held down to it."""
    graph = conv_graph()
    profile = straight_profile(graph)
    samples = (Sample(1, 0.001, 5, 0.0), Sample(8, 0.030, 5, 0.0), Sample(16, 0.010, 5, 0.0))
    profile.layers["c0"] = LayerProfile("Conv", 16, False, samples)
    curve = make_estimator("table", sources(graph, profile)).curve(Amounts(graph).layers["c0"])
    assert curve[8] == curve[16] == 0.010


def test_roofline_is_a_staircase() -> None:
    """A part of a tile costs a whole one: two rows at a time on the Jetson Nano."""
    amount = Amount("l", "Conv", "winograd", 10**9, 0, 1000, 16, 64)
    curve = make_estimator("roofline", sources(conv_graph(), kind="jetson-nano")).curve(amount)
    assert curve[1] == curve[2] < curve[3] == curve[4]
    entry = find_entry("jetson-nano")
    whole_s = 10**9 / (entry.peak_macs_per_s["float32"] * entry.winograd_efficiency)
    assert curve[16] == pytest.approx(whole_s)


def test_roofline_streams_at_the_memory_rate() -> None:
    """A layer without multiplications takes its bytes over the reachable bandwidth."""
    amount = Amount("l", "Relu", "stream", 0, 0, 16_000_000, 16, 64)
    curve = make_estimator("roofline", sources(conv_graph(), kind="raspberry-pi-4")).curve(amount)
    entry = find_entry("raspberry-pi-4")
    rate = entry.memory_bytes_per_s * entry.bandwidth_efficiency
    assert curve[8] == pytest.approx(8e6 / rate)


def test_unknown_estimator_lists_the_known() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(ClusterError, match="known are table, linear, piecewise_linear, knn"):
        make_estimator("magic", sources(conv_graph()))
