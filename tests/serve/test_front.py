"""One version after another, and the end: no request is lost."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.fronts import PATIENCE_S, Held, Source, serving, tiny_front
from tests.serve.test_http import CHAIN, draw, input_of, post
from tests.worker.tiny import expected_chain
from tritonclient import http as triton

from partita.errors import BusyError, InputError, RunError
from partita.serve import Front


def test_a_new_version_takes_over_while_the_old_one_answers_what_it_took() -> None:
    """Each request is answered by the version that took it."""
    source = Held()
    with Front([source], queue=4) as front, serving(front) as url, ThreadPoolExecutor(4) as pool:
        before = [pool.submit(post, url) for _ in range(2)]
        source.sessions[0].await_asked(2)
        load = pool.submit(httpx.post, f"{url}/v2/repository/models/tiny/load", timeout=PATIENCE_S)
        while len(source.sessions) < 2 or front.find("tiny", "2") is None:
            pass
        after = pool.submit(post, url)
        source.sessions[1].await_asked()
        source.sessions[1].answer()
        assert after.result().json()["model_version"] == "2"
        assert after.result().json()["outputs"][0]["data"] == [3.0] * 4
        assert not load.done()
        source.sessions[0].answer(2)
        for answer in before:
            assert answer.result().json()["model_version"] == "1"
            assert answer.result().json()["outputs"][0]["data"] == [2.0] * 4
        assert load.result().json() == {"name": "tiny", "version": "2"}
        assert not source.sessions[0].is_open
        gone = post(url, "/v2/models/tiny/versions/1/infer")
        assert gone.status_code == 404
        assert "no version '1'; allowed: 2" in gone.json()["error"]


def test_real_sessions_follow_each_other_without_a_lost_request() -> None:
    """Clients that ask all the time get nothing but right answers over three changes."""
    with tiny_front() as front, serving(front) as url:
        is_over, versions = threading.Event(), set[str]()

        def ask(number: int) -> int:
            with triton.InferenceServerClient(url.removeprefix("http://")) as own:
                count = 0
                while not is_over.is_set():
                    array = draw(number + count)
                    result = own.infer("tiny", [input_of(array)])
                    expected = expected_chain(CHAIN, array)
                    np.testing.assert_array_equal(result.as_numpy(CHAIN.outputs[0].name), expected)
                    versions.add(result.get_response()["model_version"])
                    count += 1
                return count

        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(ask, 1000 * n) for n in range(3)]
            with triton.InferenceServerClient(url.removeprefix("http://")) as operator:
                for _ in range(3):
                    operator.load_model("tiny")
            while "4" not in versions:
                pass
            is_over.set()
            assert all(future.result() > 3 for future in asked)
        assert "1" in versions


def test_what_others_see_goes_on_over_versions() -> None:
    """Answers of all versions count, each deployment is an event, and so is the end of one."""
    with tiny_front() as front:

        def ask(count: int) -> None:
            model = front.get("tiny")
            for number in range(count):
                model.ask({CHAIN.inputs[0].name: draw(number)}).result(PATIENCE_S)

        ask(3)
        front.load("tiny")
        ask(2)
        model = front.get("tiny")
        sample = model.session.sample(3)
        assert (sample.answers, len(sample.latencies_s)) == (5, 2)
        assert [change.why for change in sample.changes] == [
            "version 1",
            "version 2 follows version 1",
        ]
        model.session._monitor.tracker.fail(RunError("Device 'd0' is lost: it left. Restart it."))
        assert model.session.sample().down.startswith("Device 'd0' is lost")
        front.load("tiny")
        sample = front.get("tiny").session.sample()
        assert (sample.answers, sample.down) == (5, "")
        assert [(change.why, change.outcome) for change in sample.changes[2:]] == [
            ("Device 'd0' is lost: it left", "ended"),
            ("version 3 follows version 2, which had ended", "deployed"),
        ]
        assert sample.outcomes == {"deployed": 3, "ended": 1}


def test_a_version_that_cannot_be_deployed_leaves_the_old_one() -> None:
    """The error is the caller's; clients notice nothing."""

    class Failing(Held):
        def open(self):  # type: ignore[no-untyped-def]
            if self.sessions:
                raise RunError("Worker 'd0' refuses the plan: weights need too much.")
            return super().open()

    source = Failing()
    with Front([source], queue=4) as front, serving(front) as url, ThreadPoolExecutor(1) as pool:
        failed = httpx.post(f"{url}/v2/repository/models/tiny/load", timeout=PATIENCE_S)
        assert failed.status_code == 500
        assert "refuses the plan" in failed.json()["error"]
        answer = pool.submit(post, url)
        source.sessions[0].await_asked()
        source.sessions[0].answer()
        assert answer.result().json()["model_version"] == "1"


def test_a_model_whose_session_has_ended_is_deployed_anew_until_it_answers() -> None:
    """Attempts that fail are repeated; clients get errors meanwhile, and answers then."""

    class Returning(Held):
        attempts = 0

        def open(self):  # type: ignore[no-untyped-def]
            self.attempts += 1
            if self.attempts in (2, 3):
                raise RunError("Worker 'd0' is not there.")
            return super().open()

    source = Returning()
    with Front([source], queue=4, retry_s=0.01) as front, ThreadPoolExecutor(1) as pool:
        model = front.find("tiny")
        assert model is not None
        lost = model.ask({"input": np.ones(4, np.float32)})
        source.sessions[0].await_asked()
        source.sessions[0].answer(error=RunError("Device 'd0' is lost."))
        with pytest.raises(RunError, match="'d0' is lost"):
            lost.result(PATIENCE_S)
        while not front.is_ready:
            pass
        assert source.attempts == 4
        assert not source.sessions[0].is_open
        with serving(front) as url:
            answer = pool.submit(post, url)
            source.sessions[1].await_asked()
            source.sessions[1].answer()
            assert answer.result().json()["model_version"] == "2"


def test_a_model_that_does_not_come_back_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Clients are told what ended it and what is in the way; the log says each reason once."""

    class Refused(Held):
        attempts = 0

        def open(self):  # type: ignore[no-untyped-def]
            self.attempts += 1
            if self.attempts > 1:
                raise RunError("Device 'd0' is lost: it is no member.")
            return super().open()

    source = Refused()
    with Front([source], queue=4, retry_s=0.01) as front:
        source.sessions[0].error = RunError("Device 'd0' is lost: it was revoked.")
        while source.attempts < 4:
            pass
        told = r"is down: Device 'd0' is lost: it was revoked\. It is not back: .* is no member\.$"
        with pytest.raises(BusyError, match=told):
            front.get("tiny").check_room()
    assert len([message for message in caplog.messages if "is not deployed anew" in message]) == 1


def test_requests_that_waited_when_the_session_ended_did_not_fail() -> None:
    """The one under way gets the session's error; those behind it may be asked again."""
    source = Held(in_flight=1)
    with Front([source], queue=4, retry_s=1e6) as front:
        model = front.get("tiny")
        under_way, waiting = (model.ask({"input": np.ones(4, np.float32)}) for _ in range(2))
        (session,) = source.sessions
        session.await_asked()
        session.is_open = False
        session.answer(error=RunError("Device 'd0' is lost."))
        with pytest.raises(RunError, match="'d0' is lost"):
            under_way.result(PATIENCE_S)
        with pytest.raises(BusyError, match=r"Model 'tiny' is down: .*Ask again later"):
            waiting.result(PATIENCE_S)


def test_a_loss_between_requests_is_seen_before_the_next_one() -> None:
    """Health says so at once, and nobody has to fail for it."""
    source = Held()
    with Front([source], queue=4, retry_s=1e6) as front:
        assert front.is_ready
        source.sessions[0].error = RunError("Device 'd0' is lost.")
        assert not front.is_ready
        with pytest.raises(BusyError, match="Model 'tiny' is down: Device 'd0' is lost"):
            front.get("tiny").check_room()


def test_a_service_answers_probes_while_models_are_deployed() -> None:
    """It lives, is not ready, and asks clients to come again."""
    held = Held()
    may_start = threading.Event()

    def start() -> contextlib.AbstractContextManager[Any]:
        assert may_start.wait(PATIENCE_S)
        return held.open()

    front = Front([Source("tiny", start)], queue=4)
    with serving(front) as url, ThreadPoolExecutor(1) as pool:
        entered = pool.submit(front.__enter__)
        assert httpx.get(f"{url}/v2/health/live").status_code == 200
        assert httpx.get(f"{url}/v2/health/ready").status_code == 503
        refused = post(url)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "Model 'tiny' is being deployed" in refused.json()["error"]
        assert post(url, "/v2/models/other/infer").status_code == 404
        may_start.set()
        with entered.result(PATIENCE_S):
            assert httpx.get(f"{url}/v2/health/ready").status_code == 200


def test_the_end_waits_for_no_deployment_that_may_never_come() -> None:
    """What comes of it later is taken down at once."""
    held = Held()
    is_asked, may_start = threading.Event(), threading.Event()

    def start() -> contextlib.AbstractContextManager[Any]:
        if held.sessions:
            is_asked.set()
            assert may_start.wait(PATIENCE_S)
        return held.open()

    with ThreadPoolExecutor(1) as pool:
        with Front([Source("tiny", start)], queue=4) as front:
            loading = pool.submit(front.load, "tiny")
            assert is_asked.wait(PATIENCE_S)
        assert front.is_loading
        may_start.set()
        with pytest.raises(BusyError, match="the service is at its end"):
            loading.result(PATIENCE_S)
    assert [session.is_open for session in held.sessions] == [False, False]


def test_the_end_answers_what_was_taken_and_turns_away_what_comes() -> None:
    """Requests on new connections get 503 until the last answer is out."""
    source = Held()
    answers: list[Future[httpx.Response]] = []
    with Front([source], queue=4) as front, ThreadPoolExecutor(4) as pool:
        with serving(front) as url:
            (session,) = source.sessions
            answers += [pool.submit(post, url) for _ in range(3)]
            session.await_asked(2)
            while front.unanswered < 3:
                pass

            def end() -> None:
                while front.is_ready:
                    pass
                refused = post(url)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert httpx.get(f"{url}/v2/health/ready").status_code == 503
                session.answer(2)
                session.await_asked()
                session.answer()

            ended = pool.submit(end)
        ended.result(PATIENCE_S)
        assert [answer.result(PATIENCE_S).status_code for answer in answers] == [200] * 3


def test_the_end_waits_no_longer_than_it_may() -> None:
    """What has no answer by then gets an error, not silence."""
    source = Held()
    with ThreadPoolExecutor(1) as pool:
        with Front([source], queue=4) as front, serving(front, grace_s=0.05) as url:
            answer = pool.submit(post, url)
            source.sessions[0].await_asked()
        assert answer.result(PATIENCE_S).status_code == 500
        assert "closed" in answer.result().json()["error"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a", "a"], "Name 'a' is of two models. Give one as NAME=FILE."),
        (["a/b"], "Name 'a/b' is not allowed: 1 to 64 letters"),
        ([""], "Name '' is not allowed"),
    ],
)
def test_names_are_names_and_of_one_model(names: list[str], told: str) -> None:
    """They stand in paths."""
    with pytest.raises(InputError) as caught:
        Front([Held(name) for name in names], queue=1)
    assert told in caught.value.message


def test_what_was_started_ends_where_one_model_cannot_be_deployed() -> None:
    """No session stays."""

    class Missing(Held):
        def open(self):  # type: ignore[no-untyped-def]
            raise RunError("Worker 'd0' is not there.")

    good = Held("good")
    with pytest.raises(RunError, match="is not there"), Front([good, Missing("bad")], queue=1):
        pass
    assert not good.sessions[0].is_open
