"""What goes wrong while a plan is deployed or runs, in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.engines import GateEngine
from tests.memory_lab import MemoryLab, memory_lab
from tests.worker.tiny import (
    Tiny,
    expected_chain,
    random_inputs,
    tiny_chain,
    tiny_replicas,
    weight_of,
)

from partita.cluster import Device
from partita.engine import Engine, OrtEngine
from partita.errors import PartitaError, RunError
from partita.fabric import MemoryFabric, PieceHeader, digest_stream, encode_header
from partita.leader import DeployOptions, Lost, Session, deploy
from partita.worker import Store, Worker, WorkerParts
from partita.worker.messages import PROTOCOL_VERSION, feed_streams


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Contexts that end with the test."""
    with ExitStack() as entered:
        yield entered


def start(
    stack: ExitStack, tiny: Tiny, engine: Engine | None = None, **options: Any
) -> tuple[MemoryLab, Session]:
    """Deploy ``tiny`` on a worker per device."""
    names = [part.device for part in tiny.program.devices]
    lab = stack.enter_context(memory_lab([Device(name) for name in names], engine=engine))
    session = deploy(tiny, lab.endpoint, DeployOptions(**options))
    return lab, stack.enter_context(session)


def run_aside(stack: ExitStack, session: Session, tiny: Tiny, count: int = 1) -> Future[Any]:
    """Run requests on another thread."""
    pool = stack.enter_context(ThreadPoolExecutor(1))
    return pool.submit(session.run, random_inputs(tiny.program, count))


def test_a_failing_step_names_device_step_and_request(stack: ExitStack) -> None:
    """An engine's error on a worker travels back with where it happened."""
    tiny = tiny_chain()
    engine = GateEngine(RuntimeError("out of luck\nsecond line"))
    engine.gate.set()
    _, session = start(stack, tiny, engine)
    with pytest.raises(RunError, match="'d0' failed in step 'make t0' of request 0: out of luck"):
        session.run(random_inputs(tiny.program, 3))
    with pytest.raises(RunError):
        session.run(random_inputs(tiny.program))


def test_a_killed_worker_ends_the_run_at_once(stack: ExitStack) -> None:
    """A worker that leaves in the middle of a step ends the run with its name, step and request."""
    tiny = tiny_chain()
    engine = GateEngine()
    lab, session = start(stack, tiny, engine)
    answer = run_aside(stack, session, tiny, 2)
    assert engine.entered.wait(5)
    lab.fabric.kill("d1")
    with pytest.raises(RunError) as caught:
        answer.result(3)
    engine.gate.set()
    assert caught.value.device == "d1"
    assert caught.value.step == "make t1"
    assert caught.value.request == 0
    assert "d1" in caught.value.message


def test_a_lost_frame_ends_in_the_deadline(stack: ExitStack) -> None:
    """When frames of a link vanish, the run ends and says which step had nothing to work on."""
    tiny = tiny_chain()
    lab, session = start(stack, tiny, deadline_s=0.3)
    lab.fabric.cut_link("d0", "d1")
    with pytest.raises(RunError, match="made no progress") as caught:
        session.run(random_inputs(tiny.program))
    assert caught.value.request == 0
    assert caught.value.step


def test_a_short_or_lying_frame_ends_the_run(stack: ExitStack) -> None:
    """A frame whose payload is shorter than its header or the program says is refused and named."""
    tiny = tiny_chain()
    for said_bytes in (8, 16):
        _, session = start(stack, tiny)
        stream = feed_streams(tiny.program, "leader")[0]
        epoch = session.deployment.epoch
        piece = PieceHeader(epoch, 0, (), stream.id, digest_stream(stream), said_bytes)
        session._group.endpoint.send("d0", encode_header(piece), b"12345678")
        with pytest.raises(RunError, match="8 payload bytes"):
            _wait_for_error(session, tiny)


def test_a_lying_frame_between_workers_ends_the_run(stack: ExitStack) -> None:
    """A frame of one worker that is too short for its stream is refused by the other and named."""
    tiny = tiny_chain()
    lab, session = start(stack, tiny)
    stream = tiny.program.streams[0]
    piece = PieceHeader(session.deployment.epoch, 0, (), stream.id, digest_stream(stream), 8)
    lab.workers["d0"].endpoint.send("d1", encode_header(piece), b"12345678")
    with pytest.raises(RunError, match=r"'d1' failed.*8 payload bytes") as caught:
        _wait_for_error(session, tiny)
    assert caught.value.device == "d1"


def _wait_for_error(session: Session, tiny: Tiny) -> None:
    deadline_s = time.monotonic() + 3
    while time.monotonic() < deadline_s:
        session.run(random_inputs(tiny.program))


def test_a_strangers_garbage_changes_nothing(stack: ExitStack) -> None:
    """Frames from someone who is not in the program are dropped, and the answers stay right."""
    tiny = tiny_chain()
    lab, session = start(stack, tiny)
    stranger = lab.fabric.endpoint("stranger")
    stranger.send("d0", b"\xff\xfe garbage", b"payload")
    stranger.send("leader", b"\xff\xfe garbage", b"payload")
    stream = tiny.program.streams[0]
    piece = PieceHeader(session.deployment.epoch, 0, (), stream.id, digest_stream(stream), 16)
    stranger.send("d1", encode_header(piece), bytes(16))
    given = random_inputs(tiny.program)[0]
    got = session.run([given])[0]["t2"]
    np.testing.assert_array_equal(got, expected_chain(tiny.program, given["input"]))
    stranger.close()


def test_frames_of_an_old_epoch_and_doubles_are_dropped(stack: ExitStack) -> None:
    """A frame of another epoch, or one that came before, changes no answer."""
    tiny = tiny_chain()
    lab, session = start(stack, tiny)
    given = random_inputs(tiny.program, 3)
    stream = tiny.program.streams[0]
    session.run(given[:1])
    d0 = lab.workers["d0"].endpoint
    for epoch in (session.deployment.epoch - 1, session.deployment.epoch):
        piece = PieceHeader(epoch, 0, (), stream.id, digest_stream(stream), 16)
        d0.send("d1", encode_header(piece), bytes(16))
    for one, got in zip(given[1:], session.run(given[1:]), strict=True):
        np.testing.assert_array_equal(got["t2"], expected_chain(tiny.program, one["input"]))
    assert session.deployment.stats("d1").dropped == 1


def test_a_worker_of_another_version_is_refused(stack: ExitStack, tmp_path: Path) -> None:
    """A worker of another version is named with both versions, and nothing is deployed."""
    fabric = MemoryFabric()
    leader = fabric.endpoint("leader")
    parts = WorkerParts(OrtEngine(1), Store(tmp_path), version="0.0.9", protocol=0)
    worker = Worker(fabric.endpoint("d0"), parts)
    stack.callback(leader.close)
    stack.callback(worker.endpoint.close)
    stack.callback(worker.close)
    worker.start()
    words = rf"0\.0\.9 \(protocol 0\), the leader .* \(protocol {PROTOCOL_VERSION}\)"
    with pytest.raises(RunError, match=words):
        deploy(tiny_chain(1, 1), leader)


def test_a_full_store_says_so_and_keeps_nothing_half(stack: ExitStack, tmp_path: Path) -> None:
    """Content beyond the quota is refused with both sizes, and no part of it stays on disk."""
    lab = stack.enter_context(memory_lab([Device("d0")]))
    worker = lab.workers["d0"]
    worker._parts = replace(worker._parts, store=Store(tmp_path, 100, owner="d0"))
    with pytest.raises(RunError, match="quota 100 B"):
        deploy(tiny_chain(1, 1), lab.endpoint)
    assert list(tmp_path.iterdir()) == []


def test_weights_over_the_memory_limit_are_refused(stack: ExitStack) -> None:
    """A plan whose weights exceed a worker's limit is refused with both numbers."""
    tiny = tiny_chain(1, 1)
    lab = stack.enter_context(memory_lab([Device("d0", memory_bytes=2)]))
    with pytest.raises(RunError, match="need 4 B, its limit is 2 B"):
        deploy(tiny, lab.endpoint)


def _set_idle(worker: Worker, idle_bytes: int) -> None:
    memory = replace(worker._resources.memory, idle_bytes=idle_bytes, is_used=True)
    worker._resources = replace(worker._resources, memory=memory)


def test_a_loaded_plan_that_holds_too_much_is_refused(stack: ExitStack) -> None:
    """What the process holds beyond an idle worker counts, not the weights alone."""
    lab = stack.enter_context(memory_lab([Device("d0", memory_bytes=10**6)]))
    worker = lab.workers["d0"]
    # As if all that this process holds were the plan's, then as if nothing were.
    _set_idle(worker, 1)
    with pytest.raises(RunError, match=r"'d0'.* holds .* beyond an idle .*, the limit is 1 MB"):
        deploy(tiny_chain(1, 1), lab.endpoint)
    _set_idle(worker, 2**40)
    with deploy(tiny_chain(1, 1), lab.endpoint) as session:
        assert session.stats()["d0"].resident_bytes == 0


def test_content_damaged_on_disk_comes_again(tmp_path: Path) -> None:
    """A blob that was changed on disk is found, deleted and pushed again."""
    tiny = tiny_chain(1, 1)
    given = random_inputs(tiny.program)
    for damage in (True, False):
        with (
            memory_lab([Device("d0")], store=tmp_path) as lab,
            deploy(tiny, lab.endpoint) as session,
        ):
            got = session.run(given)[0]["t0"]
            np.testing.assert_array_equal(got, expected_chain(tiny.program, given[0]["input"]))
            pushed_bytes = session.deployment.pushed_bytes
        if damage:
            (tmp_path / next(iter(tiny.blobs))).write_bytes(b"oops")
    assert pushed_bytes == 4


def test_the_rest_takes_over_for_a_lost_device(stack: ExitStack) -> None:
    """With a replanner, every request is answered once and rightly after a device is lost."""
    tiny = tiny_chain(3, 3, in_flight=2, credit=2)
    rest = tiny_chain(3, 2, in_flight=2)
    engine = GateEngine()
    lab = stack.enter_context(memory_lab([Device(f"d{n}") for n in range(3)], engine=engine))
    lost: list[Lost] = []

    def replan(all_lost: Lost) -> Tiny:
        lost.append(all_lost)
        engine.gate.set()
        return rest

    session = stack.enter_context(deploy(tiny, lab.endpoint, replan=replan))
    first = session.deployment.epoch
    given = random_inputs(tiny.program, 6)
    pool = stack.enter_context(ThreadPoolExecutor(1))
    answer = pool.submit(session.run, given)
    assert engine.entered.wait(5)
    lab.fabric.kill("d2")
    outputs = answer.result(5)
    assert lost == [Lost(("d2",))]
    (change,) = session.changes
    assert change.why == "Device 'd2' is lost: it left the network"
    assert change.outcome == "recovered"
    assert change.switched_s is not None
    assert 0 < change.at_s <= change.switched_s
    assert len(outputs) == 6
    for one, got in zip(given, outputs, strict=True):
        np.testing.assert_array_equal(got["t2"], expected_chain(tiny.program, one["input"]))
    assert len(session.report().latencies_s) == 6
    # Of the new plan alone speak those that were not fed before the loss, which was one at least.
    assert session.latencies_s(first) == ()
    assert 0 < len(session.latencies_s(session.deployment.epoch)) < 6


def test_the_other_replicas_take_the_requests_of_a_lost_one(stack: ExitStack) -> None:
    """Their shares count among those that are left; answers are right, once, in order."""
    tiny, rest = tiny_replicas(30, (2, 1, 3)), tiny_replicas(30, (2, 1))
    engine = GateEngine()
    lab = stack.enter_context(memory_lab([Device(f"d{n}") for n in range(4)], engine=engine))

    def replan(_: Lost) -> Tiny:
        engine.gate.set()
        return rest

    session = stack.enter_context(deploy(tiny, lab.endpoint, replan=replan))
    given = random_inputs(tiny.program, 30)
    answer = stack.enter_context(ThreadPoolExecutor(1)).submit(session.run, given)
    assert engine.entered.wait(5)
    lab.fabric.kill("d3")
    weight = np.float32(weight_of("make a"))
    for one, got in zip(given, answer.result(5), strict=True):
        np.testing.assert_array_equal(got["a"], one["input"] * weight)
    report = session.report()
    again = {s.request: s.device for s in report.spans if s.lane == "compute"}
    devices = list(again.values())
    assert abs(devices.count("d1") - 2 * devices.count("d2")) <= 2
    assert {*devices} == {"d1", "d2"}


def test_closing_ends_what_is_under_way(stack: ExitStack) -> None:
    """A request without an answer ends with an error when the session is closed, and no later."""
    tiny = tiny_chain()
    engine = GateEngine()
    _, session = start(stack, tiny, engine)
    future = session.submit(random_inputs(tiny.program)[0])
    assert engine.entered.wait(5)
    closer = threading.Thread(target=session.close)
    closer.start()
    with pytest.raises(PartitaError, match="closed"):
        future.result(2)
    engine.gate.set()
    closer.join(5)
    with pytest.raises(RunError, match="session is closed"):
        session.submit(random_inputs(tiny.program)[0])


def test_workers_let_go_when_their_leader_is_gone(stack: ExitStack) -> None:
    """When a leader leaves without a word, its workers drop what they loaded for it."""
    tiny = tiny_chain(1, 1)
    lab = stack.enter_context(memory_lab([Device("d0")]))
    other = lab.fabric.endpoint("other-leader")
    deploy(tiny, other)
    worker = lab.workers["d0"]
    assert worker._epochs
    other.close()
    deadline_s = time.monotonic() + 3
    while worker._epochs and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not worker._epochs


def test_two_leaders_use_one_worker(stack: ExitStack) -> None:
    """Two sessions of two leaders run side by side on the same worker."""
    tiny = tiny_chain(1, 1)
    lab, session = start(stack, tiny)
    other = lab.fabric.endpoint("other-leader")
    stack.callback(other.close)
    second = stack.enter_context(deploy(tiny, other))
    given = random_inputs(tiny.program, 2)
    for one in (session, second, session):
        np.testing.assert_array_equal(
            one.run(given)[1]["t0"], expected_chain(tiny.program, given[1]["input"])
        )
