"""Streams through a session: order, what is dropped, what is bad, and what ends them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from partita import StreamOptions, stream
from partita.cluster import Cluster
from partita.compile import WholeModel, compile_plan
from partita.errors import InputError, RunError
from partita.graph import load_graph
from partita.leader import Session, deploy
from partita.plan import Identity, Plan, Shard, Stage
from partita.quantisation.pictures import Preparation, prepare_picture
from partita.streams import Content, Item, Stream
from partita.streams.items import bad_item, ready_item
from partita.streams.reader import Pace
from partita.streams.video import PipedVideo
from tests.cli.conftest import tiny_model
from tests.memory_lab import memory_lab
from tests.streams.media import draw_pixels, piped, saved, write_pictures, write_video

GRAPH = load_graph(tiny_model())


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """The tiny network whole on one device, three requests in flight."""
    cluster = Cluster.of(["a"])
    names = tuple(layer.name for layer in GRAPH.layers)
    plan = Plan(
        model=Identity(GRAPH.name, GRAPH.hash),
        cluster=Identity(cluster.name, cluster.hash),
        stages=(Stage("whole", names, "none", (Shard("a"),)),),
        planner="whole",
        in_flight=3,
    )
    with ExitStack() as stack:
        lab = stack.enter_context(memory_lab(cluster.devices))
        yield stack.enter_context(deploy(compile_plan(GRAPH, plan, cluster), lab.endpoint))


def expected(level: int) -> np.ndarray[Any, Any]:
    """The whole network's answer to a picture of one grey."""
    feeds = {"x": prepare_picture(GRAPH.input_specs[0], draw_pixels(level))}
    return WholeModel(GRAPH).run(feeds)["y"]


class Given:
    """A source of given inputs, which a test may hold up."""

    is_live = False
    waits = False

    def __init__(self, *items: Item, gate: Event | None = None) -> None:
        self._items, self._gate = items, gate
        self.read = 0

    def check(self) -> None:
        """Nothing can be wrong."""

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """The inputs; the last one only after the gate is open, or nobody wants it."""
        for number, item in enumerate(self._items):
            if self._gate is not None and number == len(self._items) - 1:
                while not self._gate.wait(0.01) and not stop.is_set():
                    pass
            self.read += 1
            yield item


def greys(*levels: int) -> list[Item]:
    """Pictures of one grey each, by that name."""
    return [ready_item(str(level), draw_pixels(level)) for level in levels]


def test_answers_come_in_order_under_the_inputs_names(session: Session, tmp_path: Path) -> None:
    """Each is the whole network's answer to its picture."""
    names = write_pictures(tmp_path / "in", 8)
    answers = list(stream(session, tmp_path / "in"))
    assert [answer.name for answer in answers] == names
    for number, answer in enumerate(answers):
        np.testing.assert_allclose(answer.outputs["y"], expected(10 * number), rtol=1e-5)
    report = session.report()
    assert len(report.latencies_s) == 8


def test_a_video_is_prepared_as_asked(session: Session, tmp_path: Path) -> None:
    """Frames larger than the input are resized; numbers are moved and scaled."""
    path = write_video(tmp_path / "a.mp4", 3)
    how = Preparation(resize=20, crop=(16, 16), mean=(0.5,), std=(0.25,))
    answers = list(stream(session, path, StreamOptions(prepare=how)))
    for number, answer in enumerate(answers):
        feeds = {"x": prepare_picture(GRAPH.input_specs[0], draw_pixels(10 * number), how)}
        whole = WholeModel(GRAPH).run(feeds)["y"]
        np.testing.assert_allclose(answer.outputs["y"], whole, rtol=0.1, atol=0.1)


def test_a_users_function_prepares(session: Session) -> None:
    """It is given what the input holds; its faults are named."""
    seen: list[Content] = []

    def prepare(content: Content) -> Any:
        seen.append(content)
        return np.zeros((1, 3, 16, 16), np.float32)

    arrays = [("a", np.arange(3)), ("b", draw_pixels(1))]
    answers = list(stream(session, arrays, StreamOptions(prepare=prepare)))
    assert [answer.name for answer in answers] == ["a", "b"]
    assert seen[0] is arrays[0][1]
    assert answers[1].content is arrays[1][1]
    with pytest.raises(InputError, match="Input 'a' cannot be prepared: ZeroDivisionError"):
        list(stream(session, arrays, StreamOptions(prepare=lambda _: 1 / 0)))


def test_arrays_that_fit_are_inputs_as_they_are(session: Session) -> None:
    """What fits neither as input nor as picture is bad."""
    array = np.random.default_rng(0).random((1, 3, 16, 16), np.float32)
    (answer,) = stream(session, [("a", array)])
    np.testing.assert_allclose(answer.outputs["y"], WholeModel(GRAPH).run({"x": array})["y"], 1e-5)
    with pytest.raises(InputError, match=r"Input 'b': it has shape \(3, 16, 16\) of float32"):
        list(stream(session, [("b", array[0])]))


def test_inputs_are_decoded_at_the_same_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits here until another is being decoded; answers keep the inputs' order."""
    monkeypatch.setattr(sys.modules[Stream.__module__], "_THREADS", 2)
    together = threading.Barrier(2, timeout=20)

    def load(level: int) -> Content:
        together.wait()
        return draw_pixels(level)

    items = [Item(str(level), partial(load, level)) for level in range(0, 80, 10)]
    answers = list(Stream(session, Given(*items)))
    assert [answer.name for answer in answers] == [item.name for item in items]
    for answer in answers:
        np.testing.assert_allclose(answer.outputs["y"], expected(int(answer.name)), rtol=1e-5)


def test_a_users_function_is_never_asked_twice_at_the_same_time(session: Session) -> None:
    """It need not bear that, and is asked in the order of the inputs."""
    busy, seen = threading.Lock(), list[int]()

    def prepare(content: Content) -> Any:
        assert busy.acquire(blocking=False)
        threading.Event().wait(0.001)
        seen.append(int(np.asarray(content).flat[0]))
        busy.release()
        return np.zeros((1, 3, 16, 16), np.float32)

    levels = list(range(0, 200, 10))
    answers = Stream(session, Given(*greys(*levels)), StreamOptions(prepare=prepare))
    assert len(list(answers)) == len(levels)
    assert seen == levels


def test_an_answer_is_given_before_the_next_input_is_there(session: Session) -> None:
    """A slow source holds up nothing that is known."""
    gate = Event()
    answers = Stream(session, Given(*greys(10, 20), gate=gate))
    assert next(answers).name == "10"
    gate.set()
    assert [answer.name for answer in answers] == ["20"]


def test_a_bad_input_ends_the_stream_after_the_answers_before_it(session: Session) -> None:
    """It is named; nothing of those before it is lost."""
    source = Given(*greys(10, 20), bad_item("odd.png", "it is odd"), *greys(40))
    answers = Stream(session, source)
    assert [next(answers).name, next(answers).name] == ["10", "20"]
    with pytest.raises(InputError, match=r"Input 'odd.png'.* it is odd"):
        next(answers)


def test_bad_inputs_are_left_out_where_that_is_asked(session: Session) -> None:
    """They are counted and named."""
    told: list[InputError] = []
    source = Given(*greys(10), bad_item("odd.png", "it is odd"), *greys(30))
    answers = Stream(session, source, StreamOptions(skips_bad=True, on_bad=told.append))
    assert [answer.name for answer in answers] == ["10", "30"]
    assert (answers.counts.bad, answers.counts.bad_names) == (1, ["odd.png"])
    assert ["odd.png" in error.message for error in told] == [True]


def test_a_stream_that_stalls_ends_with_an_error(session: Session) -> None:
    """After the answers to what came before."""
    with piped(saved(draw_pixels(10), draw_pixels(20)), ends=False) as file:
        answers = Stream(session, PipedVideo(file), StreamOptions(stall_s=0.3))
        assert [next(answers).name, next(answers).name] == ["stdin#000000", "stdin#000001"]
        with pytest.raises(RunError, match=r"The stream stalls: no input for 0.3 s"):
            next(answers)


def test_a_source_that_breaks_ends_the_stream_after_its_answers(session: Session) -> None:
    """The error is the source's own, or says what a program's iterable raised."""

    def broken() -> Iterator[tuple[str, Content]]:
        yield "a", draw_pixels(10)
        raise OSError("unplugged")

    answers = stream(session, broken())
    assert next(answers).name == "a"
    with pytest.raises(RunError, match="The stream cannot be read: OSError: unplugged"):
        next(answers)


def test_new_inputs_take_the_place_of_the_oldest(session: Session) -> None:
    """What waits is dropped and counted, order holds, and the newest is answered."""
    levels = list(range(0, 250, 5))
    answers = Stream(session, Given(*greys(*levels)), StreamOptions(drops=True, in_flight=1))
    first = next(answers)
    while not answers._reader._is_over:  # all is read while nobody takes an answer
        threading.Event().wait(0.001)
    names = [int(first.name), *(int(answer.name) for answer in answers)]
    assert names == sorted(names)
    assert names[-1] == levels[-1]
    assert len(names) < len(levels)
    assert answers.dropped == len(levels) - len(names)


def test_reading_waits_where_nothing_may_be_dropped(session: Session) -> None:
    """A consumer that takes nothing holds up the source."""
    source = Given(*greys(*range(0, 250, 5)))
    answers = Stream(session, source)
    next(answers)
    assert source.read < 20
    assert len(list(answers)) == 49
    assert answers.dropped == 0


def test_a_stream_that_is_closed_leaves_the_session_alone(session: Session, tmp_path: Path) -> None:
    """Another one runs on it."""
    write_pictures(tmp_path / "in", 5)
    with stream(session, tmp_path / "in") as answers:
        next(answers)
    assert len(list(stream(session, tmp_path / "in"))) == 5
    for thread in threading.enumerate():
        if thread.name == "stream/read":
            thread.join(5)
            assert not thread.is_alive()


def test_more_in_flight_than_compiled_is_refused(session: Session) -> None:
    """As for ``run``."""
    with pytest.raises(InputError, match="the plan was compiled for 1 to 3"):
        stream(session, [], StreamOptions(in_flight=4))


def test_inputs_come_at_their_pace() -> None:
    """Early ones wait; late ones do not let those after them hurry by more than one."""
    pace, gone = Pace(10.0), list[float]()
    now_s = 100.0
    for came_s in (100.0, 100.01, 100.02, 100.9, 100.91, 100.92):
        now_s = max(now_s, came_s)
        now_s += max(0.0, pace.early_s(now_s))
        pace.go(now_s)
        gone.append(round(now_s, 6))
    assert gone == [100.0, 100.1, 100.2, 100.9, 101.0, 101.1]
    assert Pace(None).early_s(0.0) <= 0
