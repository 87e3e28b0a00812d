"""Prices of drafts computed by hand, how objectives rank them, and what is impossible."""

from __future__ import annotations

from math import inf

import pytest

from partita.cluster import Cluster, Device, Link
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions
from partita.planners.pricing.objective import IMPOSSIBLE, rate
from partita.planners.result import Estimate
from partita.regions import wire_bytes
from tests.planners.fakes import FakeCost, conv, make_cost, make_graph

#: Of links (B/s, s), of devices (work per s) and of fragments (s).
_BANDWIDTH, _DELAY, _RATE, _OVERHEAD = 1e6, 1e-3, 1e6, 1e-4
#: One layer: 4 x 4 filters of 3 x 3 at 8 x 8 places, and twice the 1024 bytes made.
_LAYER_S = (4 * 4 * 9 * 64 + 2 * 1024) / _RATE
_ROW_S = 4 * 8 * 4 / _BANDWIDTH


def _graph(layers: int) -> Graph:
    parts = [
        part for n in range(layers) for part in conv(f"c{n}", f"t{n}", f"t{n + 1}", (4, 4, 3, 3))
    ]
    return make_graph(parts, {"t0": (1, 4, 8, 8)}, [f"t{layers}"])


def _cost(layers: int, rate: float = _RATE) -> FakeCost:
    more = {"latency": _DELAY, "overhead_s": _OVERHEAD}
    return make_cost(_graph(layers), _RATE, rate, bandwidth=_BANDWIDTH, **more)


def _message_s(rows: int) -> float:
    return rows * _ROW_S + _DELAY


def _whole(layers: int, device: str) -> Draft:
    return (DraftStage(0, layers, "none", (device,)),)


def _halves(layers: int, stages: int) -> Draft:
    step = layers // stages
    return tuple(
        DraftStage(at, at + step, "rows", ("d0", "d1"), (0, 4, 8)) for at in range(0, layers, step)
    )


@pytest.mark.parametrize("options", [PlanOptions(), PlanOptions(objective="memory")])
def test_whole_layers_cost_their_work_and_the_way(options: PlanOptions) -> None:
    """On the requester nothing travels; elsewhere the input and the answer do."""
    evaluator = Evaluator(_cost(2), options)
    here, there = (evaluator.estimate(_whole(2, device)) for device in ("d0", "d1"))
    work_s = _OVERHEAD + 2 * _LAYER_S
    assert here.latency_s == pytest.approx(work_s)
    assert here.messages == 0
    assert there.latency_s == pytest.approx(work_s + 2 * _message_s(8))
    assert there.messages == 2


def test_a_divided_layer_reads_its_halo() -> None:
    """The second half needs five of eight input rows and answers four; halves run at once."""
    estimate = Evaluator(_cost(1), PlanOptions()).estimate(_halves(1, 1))
    half_s = _OVERHEAD + _LAYER_S / 2
    assert estimate.latency_s == pytest.approx(_message_s(5) + half_s + _message_s(4))
    assert estimate.messages == 2


def test_fused_layers_recompute_and_separate_ones_exchange_the_halo() -> None:
    """One stage computes a row twice; two stages send one each way."""
    evaluator = Evaluator(_cost(2), PlanOptions())
    half_s, row_s = _LAYER_S / 2, _LAYER_S / 8
    fused = evaluator.estimate(_halves(2, 1))
    # The first layer is computed for five rows, which need six of the input.
    work_s = _OVERHEAD + half_s + row_s + half_s
    assert fused.latency_s == pytest.approx(_message_s(6) + work_s + _message_s(4))
    apart = evaluator.estimate(_halves(2, 2))
    assert apart.messages == 4
    # The other's row is there long before; its own row leaves before the answer.
    work_s = 2 * (_OVERHEAD + half_s)
    assert apart.latency_s == pytest.approx(_message_s(5) + work_s + _message_s(4))


def test_energy_and_busy_times_are_summed_over_devices() -> None:
    """The second device burns two watts; the busiest lane is the bottleneck."""
    options = PlanOptions(objective="energy", in_flight=4)
    estimate = Evaluator(_cost(1, rate=2 * _RATE), options).estimate(_halves(1, 1))
    first, second = _OVERHEAD + _LAYER_S / 2, _OVERHEAD + _LAYER_S / 4
    assert estimate.energy_joules == pytest.approx(first + 2 * second)
    assert estimate.bottleneck_s == pytest.approx(max(first, 5 * _ROW_S))
    assert estimate.period_s == pytest.approx(max(estimate.bottleneck_s, estimate.latency_s / 4))


def test_lossy_tensors_take_fewer_bytes_on_the_link() -> None:
    """Only the tensor that is named travels lossy."""
    draft = _whole(1, "d1")
    raw, lossy = (
        Evaluator(_cost(1), PlanOptions(wires=wires)).latency_of(draft)
        for wires in ({}, {"t0": "uint8"})
    )
    saved = 1024 - wire_bytes((256,), "float32", "uint8")
    assert saved > 700
    assert raw - lossy == pytest.approx(saved / _BANDWIDTH)


def test_what_must_stay_makes_drafts_impossible() -> None:
    """A kept tensor that would travel: an error that names it, and the worst score there is."""
    evaluator = Evaluator(_cost(2), PlanOptions(keep_on={"t1": "d0"}))
    moved = (DraftStage(0, 1, "none", ("d0",)), DraftStage(1, 2, "none", ("d1",)))
    with pytest.raises(PlanError, match="'t1'"):
        evaluator.estimate(moved)
    assert evaluator.score(moved) == IMPOSSIBLE
    assert evaluator.trial(moved) is None
    assert evaluator.latency_of(moved) == inf
    assert evaluator.best([moved, _whole(2, "d0")]) == _whole(2, "d0")


def test_a_missing_link_makes_drafts_impossible() -> None:
    """Where the answer has no way back, whatever asks is told so."""
    cluster = Cluster.of(["d0", "d1"], links=[Link("d0", "d1", 1e6)])
    evaluator = Evaluator(FakeCost(_graph(1), cluster, {"d0": 1e6, "d1": 1e9}), PlanOptions())
    for _ in range(2):
        with pytest.raises(PlanError, match=r"'d1'.*'d0'"):
            evaluator.estimate(_whole(1, "d1"))
    with pytest.raises(InfeasibleError, match=r"No plan found: .*link"):
        evaluator.best([_whole(1, "d1")])
    with pytest.raises(InfeasibleError, match="no draft was made"):
        evaluator.best([])


def test_equal_drafts_keep_their_order() -> None:
    """Of drafts that cost the same the first is chosen, so that plans repeat."""
    evaluator = Evaluator(_cost(1), PlanOptions())
    padded = (DraftStage(0, 1, "rows", ("d0", "d1"), (0, 8, 8)),)
    assert evaluator.score(padded) == evaluator.score(_whole(1, "d0"))
    for drafts in ([padded, _whole(1, "d0")], [_whole(1, "d0"), padded]):
        assert evaluator.best(drafts) == drafts[0]


def test_trials_give_up_above_the_limit() -> None:
    """A draft slower than the limit has no rank, is counted, and is priced when asked in full."""
    evaluator = Evaluator(_cost(2), PlanOptions())
    draft = _halves(2, 2)
    assert evaluator.trial(draft, 1e-6) is None
    counted = evaluator.budget.evaluations
    assert counted == 1
    assert evaluator.trial(draft, 1e-7) is None
    assert evaluator.budget.evaluations == counted  # known to be slower
    rank = evaluator.trial(draft)
    assert rank is not None
    assert rank.score == (evaluator.latency_of(draft), 4)
    assert evaluator.budget.evaluations == counted + 1


def test_limits_are_for_latency_alone() -> None:
    """Where something else is asked for, no draft is given up for being slow."""
    evaluator = Evaluator(_cost(1), PlanOptions(objective="energy"))
    assert evaluator.trial(_whole(1, "d1"), 1e-9) is not None


def test_what_was_priced_is_listed_up_to_a_limit() -> None:
    """Drafts with at most the objective asked for, impossible ones never."""
    evaluator = Evaluator(_cost(1), PlanOptions())
    fast, slow = sorted((_whole(1, "d0"), _whole(1, "d1")), key=evaluator.score)
    assert set(evaluator.priced(inf)) == {fast, slow}
    assert list(evaluator.priced(evaluator.latency_of(fast))) == [fast]


def test_objectives_read_the_estimate() -> None:
    """Each objective is its own figure; memory is the fullest device's part, ties by latency."""
    cluster = Cluster.of([Device("d0", memory_bytes=1000), Device("d1", memory_bytes=100)])
    estimate = Estimate(0.4, 0.3, {"d0": 500, "d1": 60}, 7.0, 5, in_flight=2)
    assert rate(estimate, "latency", cluster) == (0.4, 5)
    assert rate(estimate, "throughput", cluster) == (0.3, 0.4)
    assert rate(estimate, "memory", cluster) == (0.6, 0.4)
    assert rate(estimate, "energy", cluster) == (7.0, 0.4)


def test_loads_are_a_bound_of_the_latency() -> None:
    """The busiest device's seconds, without the way; stages of one device add up."""
    evaluator = Evaluator(_cost(2), PlanOptions())
    halves = _halves(2, 2)
    assert evaluator.loads.busiest_s(halves) == pytest.approx(2 * _OVERHEAD + _LAYER_S)
    assert evaluator.loads.busiest_s(halves) < evaluator.latency_of(halves)
    empty = (DraftStage(0, 2, "rows", ("d0", "d1"), (0, 8, 8)),)
    assert dict(evaluator.loads.of(empty[0])) == {"d0": pytest.approx(_OVERHEAD + 2 * _LAYER_S)}
