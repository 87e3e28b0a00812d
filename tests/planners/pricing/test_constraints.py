"""What a plan must keep to: memory and energy to the byte and the joule, evaluations and time."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Device
from partita.errors import ClusterError, InfeasibleError, OverfullError, PlanError
from partita.planners import DraftStage, Evaluator, PlanOptions
from partita.planners.pricing.budget import Budget
from partita.planners.pricing.range_costs import cut_positions
from tests.planners.fakes import FakeCost, make_chain, make_cost

_WHOLE = (DraftStage(0, 3, "none", ("d1",)),)


def _with_memory(size: int) -> Evaluator:
    devices = [Device("d0"), Device("d1", memory_bytes=size)]
    cost = FakeCost(make_chain(3), Cluster.of(devices), {"d0": 1e6, "d1": 1e6})
    return Evaluator(cost, PlanOptions())


def test_memory_suffices_to_the_byte() -> None:
    """What a plan needs is allowed, one byte less is not, and the message has both numbers."""
    roomy = _with_memory(10**9)
    needs = roomy.evaluate(roomy.problem.plan(_WHOLE)).memory_bytes["d1"]
    assert _with_memory(needs).latency_of(_WHOLE) == roomy.latency_of(_WHOLE)
    tight = _with_memory(needs - 1)
    with pytest.raises(InfeasibleError, match=r"does not fit on device 'd1': needs .*device has"):
        tight.estimate(_WHOLE)
    assert tight.latency_of((DraftStage(0, 3, "none", ("d0",)),)) < float("inf")
    assert tight.score(_WHOLE) == (float("inf"), 1.0)


def test_what_fits_comes_first_then_what_lacks_less() -> None:
    """However fast: and an error tells what the nearest lacks, not the first."""
    evaluator = _with_memory(1)
    part = (DraftStage(0, 1, "none", ("d1",)), DraftStage(1, 3, "none", ("d0",)))
    here = (DraftStage(0, 3, "none", ("d0",)),)
    assert evaluator.best([_WHOLE, part, here]) == here
    assert evaluator.score(part) < evaluator.score(_WHOLE)
    with pytest.raises(OverfullError, match=r"No plan found.*lacks .* on device 'd1'") as caught:
        evaluator.best([_WHOLE, part])
    needs = _with_memory(10**9).evaluate(evaluator.problem.plan(part)).memory_bytes["d1"]
    assert caught.value.overflow_bytes == {"d1": needs - 1}


def test_energy_suffices_to_the_joule() -> None:
    """The limit itself is allowed; a little less is not; others' limits do not matter."""
    cost = make_cost(make_chain(3), 1e6, 1e6)
    free = Evaluator(cost, PlanOptions(objective="energy"))
    joules = free.estimate(_WHOLE).energy_joules
    for limits, fits in (
        ({"d1": joules * (1 + 1e-9)}, True),
        ({"d1": joules * 0.99}, False),
        ({"d0": joules * 0.01}, True),
    ):
        evaluator = Evaluator(cost, PlanOptions(energy_limits=limits))
        assert (evaluator.trial(_WHOLE) is not None) == fits


@pytest.mark.parametrize(
    "options",
    [
        PlanOptions(devices=("d0", "d9")),
        PlanOptions(energy_limits={"d9": 1.0}),
        PlanOptions(keep_on={"t0": "d9"}),
    ],
)
def test_unknown_devices_are_named(options: PlanOptions) -> None:
    """Wherever an option names a device, it must be one."""
    with pytest.raises((PlanError, ClusterError), match="'d9'"):
        Evaluator(make_cost(make_chain(2), 1e6, 1e6), options)


def test_time_is_looked_at_now_and_then() -> None:
    """Without time the first look ends it, and what was cut stays cut."""
    budget = Budget(PlanOptions(most_s=0.0, max_evaluations=7))
    assert budget.most_evaluations == 7
    assert not budget.was_cut
    sum(range(1000))
    assert budget.is_over
    assert budget.was_cut


def test_plenty_of_time_is_not_over() -> None:
    """However many evaluations: those are the search's own to count."""
    budget = Budget(PlanOptions(most_s=1e6))
    budget.evaluations = 10**9
    assert not budget.is_over
    assert not budget.is_late(0.5)
    assert budget.most_evaluations == float("inf")


def test_ranges_and_moves_are_priced_by_hand() -> None:
    """A range is one fragment; what crosses a cut moves once, nothing moves to itself."""
    cost = make_cost(make_chain(3), 1e6, 2e6, bandwidth=1e6, latency=1e-3, overhead_s=0.0)
    ranges = Evaluator(cost, PlanOptions()).ranges
    parts = [ranges.work_s(at, at + 1, "d0") for at in range(3)]
    assert ranges.work_s(0, 3, "d0") == pytest.approx(sum(parts))
    assert ranges.work_s(0, 3, "d1") == pytest.approx(sum(parts) / 2)
    size = cost.graph.size_bytes("t0")
    assert ranges.move_s(1, "d0", "d1") == pytest.approx(size / 1e6 + 1e-3)
    assert ranges.move_s(1, "d1", "d1") == 0.0
    kept = Evaluator(cost, PlanOptions(keep_on={"t0": "d0"})).ranges
    assert kept.move_s(1, "d0", "d1") == float("inf")


def test_places_to_cut_keep_both_ends_and_the_borders_of_pins() -> None:
    """However few are allowed; without pins the places that least crosses."""
    cost = make_cost(make_chain(8), 1e6, 1e6)
    free = Evaluator(cost, PlanOptions()).outline
    assert cut_positions(free) == list(range(9))
    few = cut_positions(free, 4)
    assert {0, 8} <= set(few)
    assert set(few) - {0, 8} == set(free.least_crossed(range(1, 8))[:2])
    options = PlanOptions(keep_on={"t3": "d1"})
    assert {0, 3, 4, 5, 8} <= set(cut_positions(Evaluator(cost, options).outline, 2))
