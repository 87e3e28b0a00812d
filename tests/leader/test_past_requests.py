"""What is kept of answered requests."""

from __future__ import annotations

from concurrent.futures import Future

from partita.leader.past_requests import PastRequest, PastRequests
from partita.leader.requests import Request


def keep(past: PastRequests, *indices: int) -> list[PastRequest]:
    """Let requests be answered: each at its own number in seconds."""
    requests = [
        Request(n, (), Future(), n - 0.5, float(n), epoch=2, number=n + 7, is_again=n % 2 == 0)
        for n in indices
    ]
    for request in requests:
        past.append(request)
    return [
        PastRequest(r.index, r.start_s, r.end_s, r.epoch, r.number, r.is_again) for r in requests
    ]


def test_all_is_kept_that_reports_ask_for() -> None:
    """Fields come back as they were, in the order of the answers."""
    past = PastRequests(10)
    kept = keep(past, 3, 1, 2)
    assert past.last(9) == kept
    assert past.last(2) == kept[1:]
    assert past.last(0) == []
    assert past.since(2) == [kept[0], kept[2]]
    (last,) = past.last(1)
    assert type(last.index) is int


def test_the_oldest_make_room() -> None:
    """So many are known, also where the ring has gone round."""
    past = PastRequests(4)
    kept = keep(past, *range(11))
    assert len(past) == 4
    assert past.last(9) == kept[-4:]
    assert past.since(9) == kept[-2:]


def test_the_first_answer_after_a_time() -> None:
    """None where none came, and where an earlier one may be forgotten."""
    past = PastRequests(4)
    assert past.first_end_s(0.0) is None
    keep(past, 1, 2, 3, 4)
    assert (past.first_end_s(0.5), past.first_end_s(2.0), past.first_end_s(4.0)) == (1, 3, None)
    keep(past, 5)
    assert (past.first_end_s(1.5), past.first_end_s(2.5)) == (None, 3)
