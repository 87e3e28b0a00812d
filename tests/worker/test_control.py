"""What a leader may ask of a worker, and what the worker makes of frames and losses."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.worker.bench import FaultyEngine, ramp
from tests.worker.tiny import Tiny, tiny_chain

from partita.engine import Blob, Engine, OrtEngine, OrtRunner
from partita.errors import RunError
from partita.fabric import (
    Beat,
    Caller,
    Credit,
    Failure,
    MemoryEndpoint,
    MemoryFabric,
    Note,
    PieceHeader,
    ShapedEndpoint,
    decode_note,
    digest_stream,
    encode_header,
    encode_note,
)
from partita.version import VERSION
from partita.worker import Store, Worker, WorkerParts, control
from partita.worker.messages import (
    PROTOCOL_VERSION,
    BeginTraces,
    Calibrate,
    Clock,
    Have,
    Hello,
    Info,
    Missing,
    OfEpoch,
    Prepare,
    Progress,
    Put,
    SpansFrom,
    Stats,
    WorkerSpans,
    decode_message,
    encode_message,
    feed_streams,
)
from partita.worker.probe import PROBE_EPOCH


class Leader:
    """A leader by hand: one call after the other.

    Args:
        fabric: Where the worker is.
        name: The leader's own.
    """

    def __init__(self, fabric: MemoryFabric, name: str = "leader") -> None:
        self.endpoint: MemoryEndpoint = fabric.endpoint(name)
        self.notes: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.endpoint.on_notify(lambda source, body: self.notes.put(decode_note(source, body)))
        self.endpoint.on_data(lambda source, header, payload: self.answers.put(bytes(payload)))
        self.endpoint.announce(b"")

    def call(self, method: str, message: msgspec.Struct) -> bytes:
        """The worker's answer."""
        return self.endpoint.call("d0", method, encode_message(message), 5)

    def load(self, tiny: Tiny, epoch: int = 1, *, wait: bool = True) -> None:
        """Push content, prepare an epoch, and return when its fragments are loaded."""
        for content_hash, content in {**tiny.graphs, **tiny.blobs}.items():
            data = bytes(content)
            self.call("put", Put(content_hash, 0, len(data), data))
        self.call("prepare", Prepare(epoch, tiny.program, self.endpoint.name))
        if wait:
            self.join("/load")

    def join(self, suffix: str) -> None:
        """Return when the worker's threads of a kind have ended."""
        while threads := [t for t in threading.enumerate() if t.name.endswith(suffix)]:
            threads[0].join(10)

    def progress(self, epoch: int = 1) -> Progress:
        """How far the worker is."""
        return decode_message(self.call("progress", OfEpoch(epoch)), Progress)

    def failure(self) -> Failure:
        """The next failure that the worker tells of."""
        while not isinstance(note := self.notes.get(timeout=5), Failure):
            continue
        return note


class Bench:
    """A worker d0 in this process with a leader."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fabric = MemoryFabric()
        self.leader = Leader(self.fabric)
        self.stopped = threading.Event()
        self.workers: list[Worker] = []

    def start(self, engine: Engine | None = None, **parts: object) -> Worker:
        """Start the worker with some parts changed."""
        given = WorkerParts(engine or OrtEngine(1), Store(self.root, owner="d0"))
        worker = Worker(
            self.fabric.endpoint("d0"),
            replace(given, **parts),  # type: ignore[arg-type]
            on_stop=self.stopped.set,
        )
        self.workers.append(worker)
        worker.start()
        return worker


@pytest.fixture(name="bench")
def open_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that ends with the test, and leaves this process's garbage collection alone."""
    idle = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
    monkeypatch.setattr(control, "gc", idle)
    made = Bench(tmp_path)
    yield made
    for worker in made.workers:
        worker.close()
        worker.endpoint.close()
    made.leader.endpoint.close()


def test_a_worker_says_what_it_is(bench: Bench) -> None:
    """The greeting's answer and the announcement hold the same facts."""
    bench.start(memory_limit_bytes=123, fallback="no such provider")
    info = decode_message(bench.leader.call("hello", Hello(VERSION, PROTOCOL_VERSION)), Info)
    assert (info.name, info.memory_limit_bytes, info.fallback) == ("d0", 123, "no such provider")
    assert decode_message(bench.leader.endpoint.info("d0"), Info) == info


def test_a_leader_of_another_protocol_is_refused(bench: Bench) -> None:
    """The worker itself refuses, so that an older leader hears of it, too."""
    bench.start()
    with pytest.raises(RunError, match=f"the leader {VERSION} .protocol 1"):
        bench.leader.call("hello", Hello(VERSION, 1))


def test_unknown_calls_and_garbage_are_refused_in_words(bench: Bench) -> None:
    """A newer leader's call and a malformed one end with a message, and the worker lives on."""
    bench.start()
    with pytest.raises(RunError, match="Method 'dance' is unknown to partita"):
        bench.leader.call("dance", OfEpoch(1))
    with pytest.raises(RunError, match="Message Have of 7 bytes is malformed"):
        bench.leader.endpoint.call("d0", "have", b"garbage", 5)
    assert decode_message(bench.leader.call("clock", OfEpoch(0)), Clock).now_s > 0


@pytest.mark.parametrize("method", ["stats", "progress", "activate"])
def test_an_epoch_that_is_not_there_is_named(bench: Bench, method: str) -> None:
    """Asking for an epoch that ended, or never began, is an error and not an empty answer."""
    bench.start()
    with pytest.raises(RunError, match="Epoch 5 is not prepared on 'd0'"):
        bench.leader.call(method, OfEpoch(5))


def test_content_is_asked_for_once(bench: Bench) -> None:
    """What was pushed is not missing any more, and stays while its epoch pins it."""
    bench.start()
    tiny = tiny_chain(1, 1)
    hashes = (*tiny.graphs, *tiny.blobs)
    ask = Have(1, hashes)
    assert decode_message(bench.leader.call("have", ask), Missing).hashes == hashes
    bench.leader.load(tiny)
    assert decode_message(bench.leader.call("have", ask), Missing).hashes == ()


def test_an_epoch_from_preparing_to_retiring(bench: Bench) -> None:
    """Prepared once, answered, counted, and gone when it is retired; retiring again is harmless."""
    worker = bench.start()
    tiny = tiny_chain(1, 1)
    bench.leader.load(tiny)
    assert bench.leader.progress() == Progress(False, 1, 1)
    with pytest.raises(RunError, match="Epoch 1 is prepared already"):
        bench.leader.call("prepare", Prepare(1, tiny.program, "leader"))
    bench.leader.call("activate", OfEpoch(1))
    stream = feed_streams(tiny.program, "leader")[0]
    header = PieceHeader(1, 0, (), stream.id, digest_stream(stream), 16)
    bench.leader.endpoint.send("d0", encode_header(header), ramp().tobytes())
    assert len(bench.leader.answers.get(timeout=5)) == 16
    worker._lanes.lane("compute").close()
    assert decode_message(bench.leader.call("stats", OfEpoch(1)), Stats).worked[0].count == 1
    spans = decode_message(bench.leader.call("spans", SpansFrom(1, 0, 100)), WorkerSpans).marks
    assert {"load", "compute", "deliver"} == {span.lane for span in spans}
    for _ in range(2):
        bench.leader.call("retire", OfEpoch(1))
    with pytest.raises(RunError, match="not prepared"):
        bench.leader.progress()


def test_weights_beside_those_of_another_plan_count(bench: Bench) -> None:
    """Two epochs share the limit; the refusal says what the other one holds."""
    bench.start(memory_limit_bytes=7)
    tiny = tiny_chain(1, 1)
    bench.leader.load(tiny)
    with pytest.raises(RunError, match="need 4 B beside 4 B of another plan, its limit is 7 B"):
        bench.leader.call("prepare", Prepare(2, tiny.program, "leader"))
    bench.leader.call("retire", OfEpoch(1))
    bench.leader.load(tiny, epoch=2)
    assert not bench.leader.progress(2).error


def test_what_is_not_loaded_is_not_activated(bench: Bench) -> None:
    """A load that failed is told by `progress`, and the epoch cannot be used."""
    bench.start()
    bench.leader.call("prepare", Prepare(1, tiny_chain(1, 1).program, "leader"))
    bench.leader.join("/load")
    assert "is not there; deploy the plan again" in bench.leader.progress().error
    with pytest.raises(RunError, match="Epoch 1 is not ready on 'd0'"):
        bench.leader.call("activate", OfEpoch(1))


def test_an_epoch_that_still_loads_is_busy_and_not_activated(bench: Bench) -> None:
    """A leader waits for the load; who does not is refused."""
    gate = threading.Event()

    class SlowEngine(OrtEngine):
        def load(
            self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True
        ) -> OrtRunner:
            gate.wait(10)
            return super().load(graph, blobs, prepack=prepack)

    bench.start(SlowEngine(1))
    bench.leader.load(tiny_chain(1, 1), wait=False)
    assert bench.leader.progress() == Progress(True, 0, 1)
    with pytest.raises(RunError, match="Epoch 1 is not ready"):
        bench.leader.call("activate", OfEpoch(1))
    gate.set()
    bench.leader.join("/load")
    bench.leader.call("activate", OfEpoch(1))


def test_calibration_is_a_job_with_progress(bench: Bench) -> None:
    """Each fragment is counted; at the end nothing is busy and nothing went wrong."""
    bench.start()
    bench.leader.load(tiny_chain(2, 1))
    bench.leader.call("calibrate", Calibrate(1, 1))
    bench.leader.join("/calibrate")
    assert bench.leader.progress() == Progress(False, 2, 2)


def test_a_calibration_that_fails_says_why(bench: Bench) -> None:
    """The engine's error, in one line, is what the leader reads."""
    bench.start(FaultyEngine(ValueError("no such kernel\nat all")))
    bench.leader.load(tiny_chain(1, 1))
    bench.leader.call("calibrate", Calibrate(1, 1))
    bench.leader.join("/calibrate")
    assert bench.leader.progress() == Progress(False, 0, 1, "no such kernel")


def test_garbage_fails_the_epochs_of_its_sender_only(bench: Bench) -> None:
    """A frame of a member can belong to the run: it ends. One of a stranger cannot."""
    bench.start()
    bench.leader.load(tiny_chain(1, 1))
    stranger = Leader(bench.fabric, "stranger")
    stranger.endpoint.send("d0", b"\xff garbage", b"")
    stranger.endpoint.notify("d0", b"\xff garbage")
    bench.leader.call("clock", OfEpoch(0))
    assert not bench.leader.progress().error
    bench.leader.endpoint.send("d0", b"\xff garbage", b"")
    failure = bench.leader.failure()
    assert failure.step == "network"
    assert "Frame from 'leader' rejected" in failure.message
    stranger.endpoint.close()


def test_a_lost_leader_takes_its_own_epochs_with_it(bench: Bench) -> None:
    """What another leader prepared stays."""
    worker = bench.start()
    tiny = tiny_chain(1, 1)
    other = Leader(bench.fabric, "other")
    bench.leader.load(tiny, epoch=1)
    other.load(tiny, epoch=2)
    other.endpoint.close()
    worker.endpoint._lanes[1].close()  # type: ignore[attr-defined]
    assert set(worker._epochs) == {1}


def test_probes_are_acknowledged_and_credits_find_their_epoch(bench: Bench) -> None:
    """A probe is answered by a credit of its number; a credit of an epoch goes to its machine."""
    bench.start()
    bench.leader.load(tiny_chain(1, 1))
    header = PieceHeader(PROBE_EPOCH, 0, (), 9, b"", 3)
    bench.leader.endpoint.send("d0", encode_header(header), b"abc")
    while isinstance(note := bench.leader.notes.get(timeout=5), Beat):
        continue
    assert note == Credit(PROBE_EPOCH, 9)
    bench.leader.endpoint.notify("d0", encode_note(Credit(1, 44)))
    assert "credit for stream 44" in bench.leader.failure().message


def test_a_worker_beats_for_each_epoch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pulse names the epoch and counts the steps that are done, loads included."""
    monkeypatch.setattr(control, "BEAT_S", 0.001)
    bench.start()
    bench.leader.load(tiny_chain(2, 1), epoch=3)
    while (note := bench.leader.notes.get(timeout=5)) != Beat(3, 2):
        assert isinstance(note, Beat)


def test_traces_begin_on_emulated_links_only(bench: Bench) -> None:
    """On real links there is nothing to begin; on emulated ones all links get the time."""
    worker = bench.start()
    bench.leader.call("begin_traces", BeginTraces(5.0))
    shaped, begun = ShapedEndpoint(worker.endpoint, {}), list[float]()
    shaped.begin_traces = begun.append  # type: ignore[method-assign]
    worker.endpoint = shaped
    bench.leader.call("begin_traces", BeginTraces(5.0))
    assert begun == [5.0]


@pytest.mark.parametrize("role", ["worker", "front"])
def test_who_is_no_leader_may_only_look(
    bench: Bench, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every method that changes or tells something of inputs is refused before it is read."""
    worker, caller = bench.start(), Caller("box", role)
    looked = set()
    for method in worker._methods:
        try:
            worker._answer(caller, method, b"\xff garbage")
        except RunError as error:
            if f"takes {method!r} from leaders only, 'box' is a {role}" not in error.message:
                looked.add(method)
        else:
            looked.add(method)
    assert looked == {"hello", "clock", "stats", "progress"}
    assert not bench.stopped.is_set()
    assert "refused 'prepare' of 'box'" in caplog.text


def test_stopping_is_left_to_the_process(bench: Bench) -> None:
    """The call is answered first; then whoever runs the worker ends it."""
    bench.start()
    assert bench.leader.call("stop", OfEpoch(0)) == b""
    assert bench.stopped.is_set()


def test_leaders_that_come_and_go_are_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A line for the first plan of each, whatever plans follow, and one when it is gone."""
    bench.start()
    other = Leader(bench.fabric, "other")
    with caplog.at_level("INFO", "partita"):
        bench.leader.load(tiny_chain(1, 1))
        bench.leader.load(tiny_chain(1, 1), epoch=2)  # a change of plan is no new leader
        bench.leader.call("retire", OfEpoch(1))
        other.load(tiny_chain(1, 1), epoch=3)
        other.endpoint.close()
        bench.leader.call("retire", OfEpoch(2))
        bench.leader.load(tiny_chain(1, 1), epoch=4)
        bench.leader.endpoint.close()
        end_s = time.monotonic() + 5  # a worker hears of an end on a thread of its own
        while len(caplog.messages) < 4 and time.monotonic() < end_s:
            time.sleep(0.01)
    assert caplog.messages == [
        "leader 'leader' connected",
        "leader 'other' connected",
        "leader 'other' left",
        "leader 'leader' left",
    ]
