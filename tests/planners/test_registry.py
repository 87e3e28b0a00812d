"""The list of planners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partita.errors import PlanError
from partita.planners import (
    Chosen,
    Evaluator,
    find_plan,
    get_planner,
    planner_names,
    register,
    registry,
)
from partita.planners.drafts.draft import whole_stages
from tests.planners.fakes import make_chain, make_cost


@pytest.fixture
def halves() -> Iterator[str]:
    """A planner that is there for one test: half of the layers on the first and last device."""

    @register("halves", cost="published")
    def plan_halves(evaluator: Evaluator) -> Chosen:
        """The first half on the first device, the rest on the last.

        More that is not part of the summary.
        """
        order, devices = evaluator.outline, evaluator.devices
        middle = len(order) // 2
        first = whole_stages(order, 0, middle, devices[0])
        return Chosen((*first, *whole_stages(order, middle, len(order), devices[-1])))

    yield "halves"
    del registry._PLANNERS["halves"]


def test_a_registered_method_is_one_of_them(halves: str) -> None:
    """It is listed, found, and asked like the others."""
    assert halves in planner_names()
    assert (
        get_planner(halves).summary == "The first half on the first device, the rest on the last."
    )
    result = find_plan(make_cost(make_chain(4), 1e7, 1e7), planner=halves)
    assert [shard.device for stage in result.plan.stages for shard in stage.shards] == ["d0", "d1"]
    assert result.plan.planner == halves
    assert result.status == "heuristic"


def test_quick_methods_are_listed_first() -> None:
    """The order is that of what they cost, and stays within one cost the same."""
    ranks = ("cheap", "published", "exponential", "search", "training")
    costs = [ranks.index(get_planner(name).cost) for name in planner_names()]
    assert costs == sorted(costs)


def test_every_method_has_a_summary() -> None:
    """What ``compare`` prints beside the name is a full sentence or starts one."""
    assert all(len(get_planner(name).summary.split()) > 3 for name in planner_names())


def test_an_unknown_name_is_answered_with_the_known() -> None:
    """The error names what was asked for and carries it."""
    with pytest.raises(PlanError, match=r"'fastest' is unknown; allowed: .*single") as caught:
        get_planner("fastest")
    assert caught.value.subject == "fastest"
