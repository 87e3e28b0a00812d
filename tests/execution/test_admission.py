"""Admission: how many requests, and which replicas."""

from __future__ import annotations

import pytest

from partita.execution import Admission


def test_replicas_take_turns_by_outstanding_requests() -> None:
    """The alternative with the fewest unanswered requests is next, the first of equals."""
    admission = Admission((2,), 4)
    assert [admission.admit() for _ in range(3)] == [(0, (0,)), (1, (1,)), (2, (0,))]
    admission.finish(0)
    admission.finish(2)
    assert admission.admit() == (3, (0,))


def test_each_group_has_its_own_count() -> None:
    """Two replicated stages are balanced apart from each other."""
    admission = Admission((2, 3), 9)
    assert [admission.admit()[1] for _ in range(4)] == [(0, 0), (1, 1), (0, 2), (1, 0)]


def test_shares_are_kept_whatever_is_answered_first() -> None:
    """A slow replica with one in four requests gets no more of them, and no fewer."""
    admission = Admission((2,), 4, ((3, 1),))
    routes = []
    for _ in range(40):
        request, route = admission.admit()
        routes.append(route[0])
        if route == (0,):
            admission.finish(request)
        if not admission.has_room:
            admission.finish(next(n for n, taken in enumerate(routes) if taken == 1))
            routes[routes.index(1)] = -1
    assert routes.count(0) == 30


def test_stages_with_and_without_shares_stand_in_a_row() -> None:
    """Each keeps its own rule, whatever the other chooses."""
    admission = Admission((2, 2, 3), 9, ((2, 1), (), (1, 1, 1)))
    routes = [admission.admit()[1] for _ in range(6)]
    assert [route[0] for route in routes] == [0, 1, 0, 0, 1, 0]
    assert [route[1] for route in routes] == [0, 1, 0, 1, 0, 1]
    assert [route[2] for route in routes] == [0, 1, 2, 0, 1, 2]


def test_limit_is_kept() -> None:
    """No more than the limit are in flight, and an answer makes room."""
    admission = Admission((), 1)
    admission.admit()
    assert not admission.has_room
    with pytest.raises(ValueError, match="in flight"):
        admission.admit()
    admission.finish(0)
    assert admission.admit() == (1, ())


def test_unknown_answer_is_refused() -> None:
    """An answer counts once."""
    with pytest.raises(ValueError, match="request 3 is not in flight"):
        Admission((), 1).finish(3)
