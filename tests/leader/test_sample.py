"""What a session does now, asked for by the session's owner and by others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from tests.memory_lab import MemoryLab, memory_lab
from tests.worker.tiny import Tiny, random_inputs, tiny_chain

from partita.cluster import Device
from partita.errors import RunError
from partita.execution import Change
from partita.fabric import Caller
from partita.leader import (
    SAMPLE,
    History,
    Sample,
    SampleSince,
    Session,
    ask_leaders,
    deploy,
    find_leaders,
)
from partita.worker.leaders import AskLeaders, LeaderAnswers, Leaders
from partita.worker.messages import decode_message, encode_message

TINY: Tiny = tiny_chain(3, 3, in_flight=2, credit=2)


@pytest.fixture
def lab() -> Iterator[MemoryLab]:
    """Three workers in this process."""
    with memory_lab([Device(part.device) for part in TINY.program.devices]) as made:
        yield made


@pytest.fixture
def session(lab: MemoryLab) -> Iterator[Session]:
    """A chain deployed on them."""
    with deploy(TINY, lab.endpoint) as deployed:
        yield deployed


def test_a_sample_has_totals_and_latencies_since_an_answer(session: Session) -> None:
    """Answers are counted since the session began; latencies from the number that is asked for."""
    session.run(random_inputs(TINY.program, 5))
    sample = session.sample()
    assert (sample.answers, sample.open, sample.waiting) == (5, 0, 0)
    assert sample.plan == TINY.program.plan_hash
    assert len(sample.latencies_s) == 5
    assert set(sample.stats) == set(sample.devices) == {"d0", "d1", "d2"}
    assert all(stats.busy_s > 0 for stats in sample.stats.values())
    session.run(random_inputs(TINY.program, 2))
    later = session.sample(sample.answers)
    assert len(later.latencies_s) == 2
    assert later.at_s > sample.at_s
    assert session.sample(99).latencies_s == ()


def test_others_ask_a_leader_through_a_worker(lab: MemoryLab, session: Session) -> None:
    """An endpoint that reaches a worker alone gets the leader's sample; it is as its own."""
    session.run(random_inputs(TINY.program, 4))
    viewer = lab.fabric.endpoint("viewer")
    assert find_leaders(viewer) == ["leader"]
    (answer,) = ask_leaders(viewer, "d1", SAMPLE, SampleSince(1))
    sample = decode_message(answer.body, Sample)
    own = session.sample(1)
    assert (sample.answers, sample.latencies_s) == (4, own.latencies_s)
    assert sample.stats["d2"].busy_s == own.stats["d2"].busy_s
    viewer.close()


def test_what_leaders_do_not_offer_is_refused(lab: MemoryLab, session: Session) -> None:
    """The answer of each leader says why; a name that no leader has is nobody."""
    viewer = lab.fabric.endpoint("viewer")
    (answer,) = ask_leaders(viewer, "d0", "stop")
    assert "answer no 'stop'" in answer.error
    assert ask_leaders(viewer, "d0", SAMPLE, leader="nobody") == ()
    with pytest.raises(RunError, match="malformed"):
        viewer.call("d0", "ask_leaders", b"\xff", 1.0)
    viewer.close()


def test_what_changes_something_is_passed_on_for_leaders_alone(lab: MemoryLab) -> None:
    """Who is none has looks passed on; what holds a thread for ever is passed on for nobody."""
    order = encode_message(AskLeaders("drain"))
    answer = lab.workers["d0"]._answer
    for role in ("worker", "front"):
        with pytest.raises(RunError, match=f"takes 'drain' from leaders only, 'box' is a {role}"):
            answer(Caller("box", role), "ask_leaders", order)
        looked = answer(Caller("box", role), "ask_leaders", encode_message(AskLeaders("who")))
        assert decode_message(looked, LeaderAnswers).answers == ()
    leader = Caller("leader-2")
    with pytest.raises(RunError, match="malformed"):
        answer(leader, "ask_leaders", encode_message(AskLeaders("who", wait_s=1e9)))
    assert decode_message(answer(leader, "ask_leaders", order), LeaderAnswers).answers == ()


def test_a_leader_that_left_is_asked_no_more(lab: MemoryLab) -> None:
    """Once its endpoint is gone a worker knows no leader."""
    with deploy(TINY, lab.endpoint):
        pass
    lab.endpoint.close()
    viewer = lab.fabric.endpoint("viewer")
    assert find_leaders(viewer) == []
    viewer.close()


def test_a_leader_that_does_not_answer_is_named(lab: MemoryLab) -> None:
    """The worker passes on why, and goes on with the others."""
    leaders = Leaders(lab.fabric.endpoint("worker"))
    leaders.meet("ghost")
    (answer,) = leaders.pass_on(Caller("front-1", "front"), b"\x81\xa6method\xa6sample").answers
    assert answer.leader == "ghost"
    assert answer.error


def test_samples_hold_up_no_request(session: Session) -> None:
    """Somebody who asks all the time changes no answer, and none is lost."""
    over = threading.Event()
    taken: list[Sample] = []

    def ask() -> None:
        while not over.is_set():
            taken.append(session.sample())

    asking = threading.Thread(target=ask)
    asking.start()
    answers = session.run(random_inputs(TINY.program, 60))
    over.set()
    asking.join()
    assert len(answers) == 60
    assert len(taken) > 1
    assert [one.answers for one in taken] == sorted(one.answers for one in taken)


def test_a_sample_goes_on_from_what_went_before(session: Session) -> None:
    """Answers and changes of earlier sessions count; latencies are asked for by numbers of all."""
    past = (Change(1.0, "version 1", "deployed"), Change(2.0, "d7 is lost", "recovered"))
    session.follow(History(100, past, {"deployed": 1, "recovered": 9}))
    session.run(random_inputs(TINY.program, 3))
    sample = session.sample(102)
    assert (sample.answers, len(sample.latencies_s)) == (103, 1)
    assert len(session.sample(0).latencies_s) == 3
    assert sample.changes == past
    assert sample.outcomes == {"deployed": 1, "recovered": 9}
    assert sample.down == ""
    assert session.history == History(103, past, {"deployed": 1, "recovered": 9})


def test_the_end_of_a_session_is_an_event(lab: MemoryLab) -> None:
    """The loss of the requester is told with its time; what is closed on purpose has no fault."""
    with deploy(TINY, lab.endpoint) as session:
        began_s = time.monotonic()
        lab.fabric.kill("d0")
        with pytest.raises(RunError):
            session.run(random_inputs(TINY.program, 1))
        sample = session.sample()
        assert "Device 'd0' is lost" in sample.down
        (change,) = sample.changes
        assert (change.why, change.outcome) == (
            "Device 'd0' is lost: it left the network",
            "ended",
        )
        assert began_s < change.at_s <= sample.at_s
        assert sample.outcomes == {"ended": 1}
    assert session.history.outcomes == {"ended": 1}


def test_a_session_that_is_closed_has_not_failed(lab: MemoryLab) -> None:
    """Whoever ends it knows."""
    with deploy(TINY, lab.endpoint) as session:
        session.run(random_inputs(TINY.program, 2))
    assert session.history == History(2)


def test_a_history_of_months_is_no_longer_than_viewers_need() -> None:
    """Changes are dropped, counts are kept; what is still sought counts once it is found."""
    history = History()
    for number in range(100):
        change = Change(float(number), "link a -> b is slower", "switched")
        pending = Change(number + 0.5, "link a -> b is faster")
        history = history.with_session(2, [pending, change]).keep_last()
    assert history.answers == 200
    assert history.outcomes == {"switched": 100}
    assert len(history.changes) < 40
    assert history.changes[-1].at_s == 99.5
