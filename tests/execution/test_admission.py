"""Admission: how many requests, and which replicas."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.programs import DICE

from partita.execution import Admission
from partita.program import share_order


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


SHARES = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)


@given(SHARES, st.integers(1, 20), DICE)
def test_shares_are_kept_while_replicas_keep_up(
    shares: tuple[int, ...], in_flight: int, dice: random.Random
) -> None:
    """Whichever request in flight is answered first, as long as none has more than its share."""
    admission = Admission((len(shares),), in_flight, (shares,))
    order, open_requests = share_order(shares), dict[int, int]()
    for number in range(60):
        request, (taken,) = admission.admit()
        assert (request, taken) == (number, order[number % len(order)])
        open_requests[request] = taken
        held = list(open_requests.values())
        most = {one: in_flight * shares[one] / sum(shares) for one in held}
        late = [r for r, one in open_requests.items() if held.count(one) > most[one]]
        if late or len(held) == in_flight or dice.random() < 0.3:
            request = dice.choice(late or list(open_requests))
            admission.finish(request)
            del open_requests[request]


@given(SHARES, st.integers(1, 20), st.data())
def test_a_replica_that_is_behind_passes_its_turn(
    shares: tuple[int, ...], in_flight: int, data: st.DataObject
) -> None:
    """One that never answers holds its share, or as many as if all had as many, and no more."""
    stuck = data.draw(st.integers(0, len(shares) - 1))
    admission = Admission((len(shares),), in_flight, (shares,))
    held = 0
    for _ in range(500):
        if not admission.has_room:
            break
        request, (taken,) = admission.admit()
        held += taken == stuck
        if taken != stuck:
            admission.finish(request)
    share = math.ceil(in_flight * shares[stuck] / sum(shares))
    assert held == min(in_flight, max(share + 1, in_flight // len(shares)))


def test_a_replica_slower_than_planned_for_does_not_hold_up_the_others() -> None:
    """A quarter goes to one that answers nothing for long; the other takes what it passes on."""
    admission = Admission((2,), 8, ((3, 1),))
    taken = []
    for _ in range(20):
        request, (one,) = admission.admit()
        taken.append(one)
        if one == 0:
            admission.finish(request)
    assert taken[:16] == [0, 0, 1, 0] * 4
    assert taken[16:] == [0] * 4


def test_who_is_behind_does_not_depend_on_how_many_are_fed() -> None:
    """A run of four at a time of a plan for eight chooses as the plan's program says."""
    admission = Admission((2,), 8, ((3, 1),), limit=4)
    taken = [admission.admit()[1][0] for _ in range(3)]
    assert taken == [0, 0, 1]
    for request in (0, 1):
        admission.finish(request)
    for number in range(3, 15):
        request, (one,) = admission.admit()
        assert one == (number % 4 == 2)
        if one == 0:
            admission.finish(request)
        if not admission.has_room:
            break
    assert admission.has_room is False


def test_more_at_a_time_than_planned_for_are_admitted() -> None:
    """A simulation may ask what more in flight would give."""
    admission = Admission((2,), 2, ((1, 1),), limit=40)
    assert [admission.admit()[1][0] for _ in range(40)] == [0, 1] * 20
    assert not admission.has_room


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
