"""Who waits and who is turned away; every request that is taken has one answer or one error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from tests.serve.fronts import PATIENCE_S, Held, HeldSession

from partita.errors import BusyError, InputError, RunError
from partita.serve import ServedModel

FEEDS = {"input": np.ones(4, np.float32)}


@contextlib.contextmanager
def served(queue: int = 3, in_flight: int = 2) -> Iterator[tuple[ServedModel, HeldSession]]:
    """A model, and the session that it runs on."""
    source = Held(in_flight=in_flight)
    model = ServedModel("tiny", "1", source.open(), queue)
    try:
        yield model, source.sessions[0]
    finally:
        model.close()


def test_answers_come_in_order_and_belong_to_their_requests() -> None:
    """The session gets requests in the order in which they were taken."""
    with served() as (model, session):
        futures = [model.ask({"input": FEEDS["input"] * n}) for n in range(5)]
        for number, future in enumerate(futures):
            session.await_asked()
            session.answer()
            got = future.result(PATIENCE_S)["t0"]
            np.testing.assert_array_equal(got, FEEDS["input"] * number * session.factor)


@pytest.mark.parametrize("queue", [0, 3])
def test_who_finds_no_room_is_turned_away_at_once(queue: int) -> None:
    """As many as are under way, and as many as may wait; one answer makes room for one."""
    with served(queue) as (model, session):
        futures = [model.ask(FEEDS) for _ in range(queue + 2)]
        with pytest.raises(BusyError, match=f"{queue + 2} requests have no answer yet, allowed"):
            model.ask(FEEDS)
        session.await_asked(2)
        session.answer()
        assert futures[0].result(PATIENCE_S)
        model.ask(FEEDS)
        with pytest.raises(BusyError):
            model.check_room()


def test_who_has_its_answer_finds_room_for_the_next_request() -> None:
    """As many clients as there is room for are never turned away, however fast they ask."""
    with served(queue=0, in_flight=1) as (model, session):
        found = []
        for _ in range(50):
            future = model.ask(FEEDS)
            future.add_done_callback(lambda _: found.append(model.unanswered))
            session.await_asked()
            session.answer()
        assert found == [0] * 50


def test_a_request_that_is_refused_does_not_end_the_model() -> None:
    """What does not fit the model is its own request's error."""
    with served() as (model, session):
        future = model.ask(FEEDS)
        session.await_asked()
        session.answer(error=InputError("no"))
        with pytest.raises(InputError, match="no"):
            future.result(PATIENCE_S)
        assert model.error is None
        model.ask(FEEDS)


def test_the_end_of_the_session_is_the_end_of_the_model() -> None:
    """Those under way have its error; who waited, or comes then, may ask again later."""
    with served() as (model, session):
        futures = [model.ask(FEEDS) for _ in range(4)]
        session.await_asked(2)
        session.is_open = False
        session.answer(2, RunError("Device 'a' is lost."))
        for future in futures[:2]:
            with pytest.raises(RunError, match="'a' is lost"):
                future.result(PATIENCE_S)
        for future in futures[2:]:
            with pytest.raises(BusyError, match="'a' is lost"):
                future.result(PATIENCE_S)
        with pytest.raises(BusyError, match="'a' is lost"):
            model.ask(FEEDS)
        assert model.unanswered == 0


def test_a_model_that_is_closed_leaves_nobody_waiting() -> None:
    """What has no answer then has an error."""
    with served() as (model, session):
        futures = [model.ask(FEEDS) for _ in range(4)]
        session.await_asked(2)
        model.close()
        for future in futures:
            with pytest.raises((BusyError, RunError), match="closed"):
                future.result(PATIENCE_S)


def test_a_model_that_drains_answers_what_it_took_and_takes_no_more() -> None:
    """It says whether all is answered in time."""
    with served() as (model, session):
        futures = [model.ask(FEEDS) for _ in range(3)]
        assert not model.drain(0.0)
        with pytest.raises(BusyError, match="taken down"):
            model.ask(FEEDS)
        for _ in futures:
            session.await_asked()
            session.answer()
        assert model.drain(PATIENCE_S)
        assert all(future.result(0) for future in futures)
