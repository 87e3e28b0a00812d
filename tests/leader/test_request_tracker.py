"""Requests from admission to answer, with a requester that answers when the test says so."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.leader.fakes import Deployed, FakeLab
from tests.program_builder import ProgramBuilder
from tests.worker.tiny import tiny_chain, tiny_replicas

from partita.errors import BusyError, RunError
from partita.execution import Change
from partita.fabric import digest_stream
from partita.leader.request_tracker import RequestTracker
from partita.program import Program
from partita.worker.messages import FIRST_ANSWER, FIRST_FEED, answer_streams, feed_streams


class Bench:
    """A tracker with the requester d0; requests and answers are filled with one number each."""

    def __init__(self, program: Program, *, epoch: int = 1, **options: Any) -> None:
        self.lab = FakeLab("d0")
        self.requester = self.lab.workers["d0"]
        self.program = program
        self.faults: list[RunError] = []
        self.errors: list[RunError] = []
        self.lab.leader.on_error(self.errors.append)
        self.tracker = RequestTracker(
            self.lab.leader, self.deployment(epoch), self.faults.append, **options
        )
        self.pool = ThreadPoolExecutor(1)

    def deployment(self, epoch: int) -> Any:
        """The same program under an epoch."""
        return Deployed(self.lab, self.program, epoch)

    def ask(self, value: float) -> Future[dict[str, np.ndarray]]:
        """Feed one request."""
        return self.tracker.ask((np.full(4, value, np.float32),))

    def ask_later(self, value: float) -> Future[Future[dict[str, np.ndarray]]]:
        """Feed one request once there is room; return when it waits in the tracker."""
        count = self.tracker.count
        asked = self.pool.submit(self.ask, value)
        while self.tracker.count == count:
            continue
        return asked

    def answer(self, number: int, value: float, epoch: int = 1, **changes: object) -> None:
        """Answer a request of an epoch."""
        array = np.full(4, value, np.float32)
        self.requester.answer_request(self.program, number, array, epoch, **changes)

    @property
    def fed(self) -> list[tuple[int, int, float]]:
        """Epoch, number and value of all requests that came to the requester."""
        return [
            (header.epoch, header.request, float(np.frombuffer(payload, "f4")[0]))
            for header, payload in self.requester.pieces
        ]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A chain with two requests in flight."""
    made = Bench(tiny_chain(in_flight=2, credit=2).program)
    yield made
    made.tracker.fail(RunError("over"))
    made.pool.shutdown()


def test_a_request_is_fed_and_answered_under_its_number(bench: Bench) -> None:
    """Answers may come in another order: each future gets the one of its own request."""
    first, second = bench.ask(1), bench.ask(2)
    assert bench.fed == [(1, 0, 1.0), (1, 1, 2.0)]
    header = bench.requester.pieces[0][0]
    assert header.stream == FIRST_FEED
    assert header.digest == digest_stream(feed_streams(bench.program, "leader")[0])
    bench.answer(1, 20)
    assert not first.done()
    bench.answer(0, 10)
    assert second.result(0)["t2"].tolist() == [20] * 4
    assert first.result(0)["t2"].tolist() == [10] * 4
    assert [request.index for request in bench.tracker.past.last(9)] == [1, 0]


def test_no_more_are_fed_than_the_program_allows(bench: Bench) -> None:
    """The third request waits for an answer and is then fed by itself."""
    bench.ask(1), bench.ask(2)
    third = bench.ask_later(3)
    assert len(bench.fed) == 2
    bench.answer(0, 10)
    assert not third.result(5).done()
    assert bench.fed[2] == (1, 2, 3.0)


def test_who_waits_only_so_long_is_turned_away_without_a_trace(bench: Bench) -> None:
    """Its request is never fed; one that finds room in that time is."""
    first, _ = bench.ask(1), bench.ask(2)
    for wait_s in (0.0, -1.0, 0.001):
        with pytest.raises(BusyError, match="2 requests are under way"):
            bench.tracker.ask((np.full(4, 3, np.float32),), wait_s)
    bench.answer(0, 10)
    assert first.result(0)["t2"][0] == 10
    assert len(bench.fed) == 2
    bench.tracker.ask((np.full(4, 4, np.float32),), 0.0)
    assert bench.fed[2] == (1, 2, 4.0)


def test_no_more_times_are_kept_than_was_asked_for() -> None:
    """A service runs on and on: what is usual is found from the last ones."""
    bench = Bench(tiny_chain(in_flight=2, credit=2).program, remembered=3)
    for number in range(9):
        bench.ask(number)
        bench.answer(number, 0)
    assert [request.index for request in bench.tracker.past.last(9)] == [6, 7, 8]
    bench.pool.shutdown()


def test_an_answer_that_comes_twice_counts_once(bench: Bench) -> None:
    """The double changes neither the result nor the counts, nor does it make room."""
    future = bench.ask(1)
    bench.answer(0, 10)
    bench.answer(0, 99)
    assert future.result(0)["t2"][0] == 10
    assert (bench.tracker.answers, len(bench.tracker.past)) == (1, 1)
    assert bench.tracker.latest(0)[0].index == 0
    assert bench.errors == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"digest": b"12345678"}, "another shape"),
        ({"stream": FIRST_ANSWER + 1}, "does not end here"),
        ({"payload_bytes": 12}, "header says 12"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    bench: Bench, changes: dict[str, object], reason: str
) -> None:
    """It becomes a fault of the leader's endpoint; the right one still counts."""
    future = bench.ask(1)
    bench.answer(0, 99, **changes)
    assert reason in bench.errors[0].message
    assert not future.done()
    bench.answer(0, 10)
    assert future.result(0)["t2"][0] == 10


def test_a_late_answer_of_an_old_epoch_answers_nothing(bench: Bench) -> None:
    """After a loss the numbers begin anew: an old answer must not reach another request."""
    first, second = bench.ask(1), bench.ask(2)
    bench.answer(0, 10)
    bench.tracker.suspend()
    bench.answer(1, 99)
    bench.tracker.resume(bench.deployment(2))
    assert bench.fed[2:] == [(2, 0, 2.0)]
    bench.answer(0, 99, epoch=1)
    bench.answer(0, 20, epoch=2)
    assert first.result(0)["t2"][0] == 10
    assert second.result(0)["t2"][0] == 20


def test_what_was_taken_back_is_fed_again_in_order_before_the_rest(bench: Bench) -> None:
    """Unanswered requests come first and in their order; those that waited follow."""
    bench.ask(1), bench.ask(2)
    third = bench.ask_later(3)
    bench.tracker.suspend()
    assert bench.tracker.oldest() is None
    bench.tracker.resume(bench.deployment(2))
    assert bench.fed[2:] == [(2, 0, 1.0), (2, 1, 2.0)]
    bench.answer(1, 20, epoch=2)
    third.result(5)
    assert bench.fed[4] == (2, 2, 3.0)
    assert bench.tracker.find(2, 2) is not None


def test_halves_of_answers_are_not_put_together_across_epochs() -> None:
    """Of two outputs one came before a loss: both must come under the new epoch."""
    build = ProgramBuilder(1)
    fed = build.feed()
    build.deliver([[build.compute("d0", [[fed]], "a")], [build.compute("d0", [[fed]], "b")]])
    bench = Bench(build.build())
    future = bench.ask(1)
    second = answer_streams(bench.program, "leader")[1]
    other = {"stream": second.id, "digest": digest_stream(second)}
    bench.answer(0, 99)
    bench.tracker.suspend()
    bench.tracker.resume(bench.deployment(2))
    bench.answer(0, 20, epoch=2, **other)
    assert not future.done()
    bench.answer(0, 10, epoch=2)
    assert {name: array[0] for name, array in future.result(0).items()} == {"a": 10, "b": 20}


def test_open_requests_stay_under_their_epoch_when_another_begins(bench: Bench) -> None:
    """A switch feeds new requests anew; both epochs together keep to the limit."""
    first = bench.ask(1)
    bench.tracker.resume(bench.deployment(2))
    bench.ask(2)
    third = bench.ask_later(3)
    assert bench.fed == [(1, 0, 1.0), (2, 0, 2.0)]
    assert not bench.tracker.is_drained(1)
    bench.answer(0, 10, epoch=1)
    assert first.result(0)["t2"][0] == 10
    assert bench.tracker.is_drained(1)
    third.result(5)
    assert bench.fed[2] == (2, 1, 3.0)


def test_a_paused_tracker_feeds_nothing_and_takes_answers(bench: Bench) -> None:
    """An epoch comes to its end while new requests wait for the next one."""
    first = bench.ask(1)
    bench.tracker.pause()
    second = bench.ask_later(2)
    bench.answer(0, 10)
    assert first.done()
    assert len(bench.fed) == 1
    bench.tracker.resume(bench.deployment(2))
    second.result(5)
    assert bench.fed[1] == (2, 0, 2.0)


def test_the_first_error_ends_everything(bench: Bench) -> None:
    """Fed, waiting and later requests all end with it, whatever fails afterwards."""
    fed, other = bench.ask(1), bench.ask(2)
    waiting = bench.ask_later(3)
    bench.tracker.fail(RunError("first"))
    bench.tracker.fail(RunError("second"))
    for future in (fed, other, waiting.result(5)):
        with pytest.raises(RunError, match="first"):
            future.result(0)
    with pytest.raises(RunError, match="first"):
        bench.ask(4)
    bench.answer(0, 10)
    assert bench.tracker.answers == 0


def test_a_request_that_cannot_be_sent_is_a_fault(bench: Bench) -> None:
    """The request stays open: whoever watches decides whether it is fed again."""
    bench.lab.fabric.kill("d0")
    future = bench.ask(1)
    assert "'d0' cannot be reached" in bench.faults[0].message
    assert not future.done()
    oldest = bench.tracker.oldest()
    assert oldest is not None
    assert oldest.index == 0


def test_a_cancelled_future_takes_no_answer_away(bench: Bench) -> None:
    """What is fed cannot be called back: cancelling says so."""
    future = bench.ask(1)
    assert not future.cancel()
    bench.answer(0, 10)
    assert future.result(0)["t2"][0] == 10


def test_requests_are_routed_to_the_replica_with_fewest() -> None:
    """Each request names its replica; an answer makes room on that one."""
    bench = Bench(tiny_replicas(in_flight=3).program)
    for value in range(3):
        bench.ask(value)
    assert [header.route for header, _ in bench.requester.pieces] == [(0,), (1,), (0,)]
    bench.answer(1, 10)
    bench.ask(3)
    assert bench.requester.pieces[3][0].route == (1,)


def test_answers_are_told_once_to_who_counts_them(bench: Bench) -> None:
    """`latest` gives what came since a count; `answered` what was asked since an index."""
    for number in range(3):
        bench.ask(number)
        bench.answer(number, number)
    assert [request.index for request in bench.tracker.latest(1)] == [1, 2]
    assert bench.tracker.latest(3) == []
    assert [request.index for request in bench.tracker.answered(2)] == [2]


def test_an_answer_lives_as_long_as_its_caller_wants(bench: Bench) -> None:
    """A long session keeps times of answered requests, not their outputs."""
    future = bench.ask(1)
    bench.answer(0, 10)
    output = weakref.ref(future.result(0)["t2"])
    assert output() is not None
    del future
    assert output() is None
    (past,) = bench.tracker.past.last(9)
    assert past.end_s >= past.start_s > 0


def test_waiting_ends_when_fewer_are_open(bench: Bench) -> None:
    """A caller that keeps its own limit goes on with the answer, not with a poll."""
    futures = [bench.ask(1), bench.ask(2)]
    waiting = bench.pool.submit(bench.tracker.wait_below, 2, futures)
    bench.answer(1, 20)
    waiting.result(5)
    bench.tracker.wait_below(2, futures)


def test_the_first_answer_after_a_switch_is_known_for_good() -> None:
    """However many come after it: those who look on may do so months later."""
    bench = Bench(tiny_chain(in_flight=1, credit=2).program, remembered=2)
    bench.ask(0)
    bench.answer(0, 0)
    switched_s = time.monotonic()
    change = Change(switched_s, "'d1' is lost", "recovered", switched_s=switched_s)
    bench.tracker.await_answers([change, Change(0.0, "drift", "kept")])
    assert bench.tracker.first_after(switched_s) is None
    ends_s = []
    for number in range(1, 6):
        bench.ask(number)
        bench.answer(number, number)
        ends_s.append(bench.tracker.past.last(1)[0].end_s)
    assert bench.tracker.first_after(switched_s) == ends_s[0]
    bench.tracker.await_answers([Change(0.0, "late", "recovered", switched_s=ends_s[3])])
    assert bench.tracker.first_after(ends_s[3]) == ends_s[4]
    bench.tracker.fail(RunError("over"))
