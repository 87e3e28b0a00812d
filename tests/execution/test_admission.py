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
