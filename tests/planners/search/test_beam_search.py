"""The beam, whole searches and the smallest spaces: what they return, and when they stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions
from partita.planners.search.beam_search import BeamSearch, fill
from partita.planners.search.exhaustive import Space, divisions
from partita.planners.search.nested_search import NestedSearch
from partita.planners.search.stage_ends import StageEnds
from partita.planners.simple.single import single_drafts
from tests.planners.fakes import make_chain, make_cost, make_dense, make_gated, make_pair


def _evaluator(layers: int = 5, bandwidth: float = 1e8, **options: object) -> Evaluator:
    cost = make_cost(make_chain(layers, seed=1), 1e7, 2e7, 1.5e7, bandwidth=bandwidth)
    return Evaluator(cost, PlanOptions(**options))  # type: ignore[arg-type]


def _beam(evaluator: Evaluator, axes: tuple[str, ...] | None = None) -> BeamSearch:
    assert evaluator.pricer is not None
    return BeamSearch(evaluator, evaluator.pricer, axes)


def test_the_beam_is_in_order_of_exact_prices() -> None:
    """All its drafts are complete, and the first is what an evaluator finds least."""
    evaluator = _evaluator()
    drafts = _beam(evaluator).run(300)
    assert len(drafts) > 50
    assert all((d[0].start, d[-1].stop) == (0, 5) for d in drafts)
    seconds = [evaluator.latency_of(draft) for draft in drafts]
    assert seconds == pytest.approx(sorted(seconds))
    assert seconds[0] < min(map(evaluator.latency_of, single_drafts(evaluator)))


def test_the_beam_keeps_to_axes_and_pins() -> None:
    """Only rows where only rows may be; what touches a kept tensor is whole where it is kept."""
    for draft in _beam(_evaluator(), ("rows",)).run(200):
        assert {s.axis for s in draft} <= {"rows", "none"}
    pinned = _evaluator(keep_on={"t1": "d1"})
    drafts = _beam(pinned).run(200)
    assert drafts
    for draft in drafts:
        inside = [s for s in draft if s.start < 3 and s.stop > 1]
        assert {(s.axis, s.devices) for s in inside} == {("none", ("d1",))}


def test_a_larger_beam_costs_more() -> None:
    """What it takes is counted in the budget, about as much as it was given."""
    counts = []
    for most in (50, 400):
        evaluator = _evaluator(6)
        _beam(evaluator).run(most)
        counts.append(evaluator.budget.evaluations)
    assert counts[0] < counts[1] <= 2 * 400


def test_work_is_dealt_so_that_all_end_together() -> None:
    """Who is free later gets less; who is free after the end gets nothing."""
    shares = fill([2.0, 1.0, 5.0], [0.0, 0.1, 9.0])
    assert shares[2] == 0.0
    assert sum(shares) == pytest.approx(1.0)
    assert shares[0] / 2.0 == pytest.approx(0.1 + shares[1] / 1.0)


def test_divisions_are_all_and_each_once() -> None:
    """Three parts among three devices in order, but not all parts to one."""
    cuts = list(divisions(3, 3))
    assert len(cuts) == len(set(cuts)) == 10 - 3
    assert not list(divisions(0, 3))
    assert not list(divisions(3, 1))


@pytest.mark.parametrize("make", [make_gated, make_dense, make_pair])
def test_the_space_is_counted_without_being_made(make: Callable[[], Graph]) -> None:
    """The count is never below the stages there are, by at most two for each device more."""
    evaluator = Evaluator(make_cost(make(), 1e6, 1e6), PlanOptions())
    space, total = Space(evaluator), len(evaluator.outline)
    least, most = [0] * total + [1], [0] * total + [1]
    for start in reversed(range(total)):
        for stop in range(start + 1, total + 1):
            ways = len(set(space.stages(start, stop)))
            least[start] += ways * least[stop]
            most[start] += (ways + 4) * most[stop]
    assert least[0] <= space.count(10**12) <= most[0]
    assert space.count(5) > 5
    assert space.few_stages(0, 1, 0) is None


def test_the_search_ends_with_its_evaluations() -> None:
    """After the last one allowed no other level begins; what was found so far is returned."""
    few, many = (_evaluator(max_evaluations=most) for most in (30, 600))
    found = [NestedSearch(evaluator, []).run()[0] for evaluator in (few, many)]
    assert few.budget.evaluations < 250 < many.budget.evaluations
    assert many.latency_of(found[1]) <= few.latency_of(found[0])


def test_searches_return_the_best_first() -> None:
    """Different complete drafts in the order of their scores."""
    evaluator = _evaluator(max_evaluations=60)
    drafts = NestedSearch(evaluator, single_drafts(evaluator)).run()
    assert len(set(drafts)) == len(drafts) > 1
    scores = [evaluator.score(draft) for draft in drafts]
    assert scores == sorted(scores)


def test_stage_ends_follow_the_links() -> None:
    """Over slow links nothing is gained by dividing; over fast ones all rows are divided."""
    ends = []
    for bandwidth in (1e3, 1e12):
        evaluator = _evaluator(bandwidth=bandwidth)
        draft = StageEnds(evaluator, evaluator.devices, (1.0, 2.0, 1.5)).draft("d0")
        assert (draft[0].start, draft[-1].stop) == (0, 5)
        ends.append(max(stage.stop for stage in draft if stage.axis == "rows"))
    assert ends[1] == 5
    assert ends[0] < 5
