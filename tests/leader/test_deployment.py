"""How an epoch is brought to the workers, and what ends it halfway."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
from tests.engine.test_slowed import VirtualClock
from tests.leader.fakes import FakeLab, fake_time, gone, info_of
from tests.worker.tiny import Tiny, tiny_chain

from partita.errors import RunError
from partita.leader import DeployOptions, deployment, push
from partita.leader.deployment import Deployment, fragments_of
from partita.leader.push import as_bytes
from partita.worker.messages import (
    Missing,
    Prepare,
    Progress,
    Put,
    WorkerSpan,
    WorkerSpans,
    decode_message,
)
from partita.worker.probe import PROBE_EPOCH

#: No thread is waited for longer.
PATIENCE_S = 20.0


def bring(
    lab: FakeLab, tiny: Tiny | None = None, slow: tuple[str, ...] = (), **options: object
) -> Deployment:
    """Deploy a chain on all workers of a lab."""
    tiny = tiny or tiny_chain(2, len(lab.workers))
    brought = Deployment(tiny, lab.group, DeployOptions(**options))  # type: ignore[arg-type]
    infos = {name: info_of(name, slow_down=2.0 if name in slow else 1.0) for name in lab.workers}
    brought.prepare(infos)
    return brought


def test_each_worker_goes_through_all_stages() -> None:
    """Content, load, calibration and activation, in this order; each gets its own steps only."""
    lab = FakeLab("d0", "d1")
    bring(lab)
    for name, worker in lab.workers.items():
        calls = list(dict.fromkeys(worker.seen))
        assert calls == ["have", "put", "prepare", "progress", "calibrate", "activate"]
        prepare = decode_message(worker.bodies["prepare"][0], Prepare)
        assert [part.device for part in prepare.program.devices] == [name]
        assert prepare.leader == "leader"


def test_only_missing_content_is_pushed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gets what it lacks, in chunks that follow each other; no bytes are content, too."""
    monkeypatch.setattr(push, "CHUNK_BYTES", 100)
    lab, tiny = FakeLab("d0"), tiny_chain(1, 1)
    (graph,) = tiny.graphs.values()
    (name,) = tiny.graphs
    (blob,) = tiny.blobs
    lab.workers["d0"].answers["have"] = lambda body: Missing((name,))
    brought = bring(lab, tiny)
    puts = [decode_message(body, Put) for body in lab.workers["d0"].bodies["put"]]
    assert {put.hash for put in puts} == {name}
    assert [put.offset for put in puts] == list(range(0, len(graph), 100))
    assert b"".join(put.data for put in puts) == graph
    assert {put.size_bytes for put in puts} == {brought.pushed_bytes} == {len(graph)}
    lab.workers["d0"].answers["have"] = lambda body: Missing((blob,))
    bring(lab, Tiny(tiny.program, tiny.graphs, {blob: b""}))
    last = decode_message(lab.workers["d0"].bodies["put"][-1], Put)
    assert (last.hash, last.size_bytes, last.data) == (blob, 0, b"")


def test_emulated_devices_are_calibrated_in_turns() -> None:
    """They share a machine: one at a time, several rounds; a real device is warmed up once."""
    lab = FakeLab("d0", "d1", "d2")
    order: list[str] = []
    for name, worker in lab.workers.items():
        worker.answers["calibrate"] = lambda body, name=name: order.append(name)  # type: ignore[misc, func-returns-value]
    bring(lab, tiny_chain(3, 3), slow=("d1", "d2"), rounds=3)
    assert order == ["d0", "d1", "d2", "d1", "d2", "d1", "d2"]


@pytest.mark.parametrize("method", ["have", "put", "prepare", "calibrate", "activate"])
def test_a_refusal_retires_the_epoch_everywhere(method: str) -> None:
    """Whatever stage fails on one worker, nothing stays prepared on any."""
    lab = FakeLab("d0", "d1")
    lab.workers["d1"].answers[method] = lambda body: RunError("no")
    lab.workers["d0"].answers["retire"] = lambda body: gone("d0")
    with pytest.raises(RunError, match="Device 'd1': no"):
        bring(lab)
    assert lab.workers["d0"].seen[-1] == lab.workers["d1"].seen[-1] == "retire"


@pytest.mark.parametrize(("job", "word"), [(0, "load"), (1, "calibrate")])
def test_a_job_that_fails_is_told_with_what_it_was(job: int, word: str) -> None:
    """The worker's own words come after the device and the stage."""
    lab = FakeLab("d0")
    progress = iter([Progress(False, 1, 1)] * job + [Progress(False, 0, 1, "bad graph")])
    lab.workers["d0"].answers["progress"] = lambda body: next(progress)
    with pytest.raises(RunError, match=f"'d0' cannot {word} its part: bad graph") as caught:
        bring(lab)
    assert caught.value.device == "d0"


def test_a_job_that_takes_too_long_is_told_with_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker is asked again and again until the patience ends."""
    monkeypatch.setattr(deployment, "time", fake_time(VirtualClock()))
    lab = FakeLab("d0")
    lab.workers["d0"].answers["progress"] = lambda body: Progress(True, 2, 9)
    with pytest.raises(RunError, match=r"did not load its part within 0.05 s: 2 of 9 fragments"):
        bring(lab, load_s=0.05)
    assert lab.workers["d0"].seen.count("progress") > 3


def test_an_epoch_is_retired_where_workers_still_are() -> None:
    """One that left is not waited for, one that refuses is no error."""
    lab = FakeLab("d0", "d1", "d2")
    brought = bring(lab, tiny_chain(3, 3))
    lab.fabric.kill("d1")
    lab.workers["d2"].answers["retire"] = lambda body: gone("d2")
    brought.retire()
    seen = {name: worker.seen[-1] for name, worker in lab.workers.items()}
    assert seen == {"d0": "retire", "d1": "activate", "d2": "retire"}


def test_spans_are_fetched_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full page may have a successor; one that is not full is the last."""
    monkeypatch.setattr(deployment, "_SPANS_PER_CALL", 2)
    lab = FakeLab("d0")
    pages = iter([2, 2, 1])

    def page(body: bytes) -> WorkerSpans:
        return WorkerSpans((WorkerSpan("compute", 0, 0, 0.0, 1.0),) * next(pages))

    lab.workers["d0"].answers["spans"] = page
    assert len(bring(lab, tiny_chain(1, 1)).spans("d0")) == 5


def test_epochs_are_never_used_again() -> None:
    """They are drawn: no two are alike, and none is that of probes."""
    lab = FakeLab("d0")
    numbers = {bring(lab, tiny_chain(1, 1)).epoch for _ in range(20)}
    assert len(numbers) == 20
    assert PROBE_EPOCH not in numbers
    assert all(0 < number < 2**62 for number in numbers)


def test_contents_are_flat_bytes_whatever_they_were() -> None:
    """Weights as arrays of any type and order have the bytes that their hash was taken of."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert bytes(as_bytes(array.T)) == np.ascontiguousarray(array.T).tobytes()
    assert bytes(as_bytes(b"abc")) == b"abc"
    assert len(as_bytes(np.zeros((), np.float64))) == 8


def test_a_fragment_that_several_steps_use_is_pushed_once() -> None:
    """Each device gets its own fragments, in the order of their first use."""
    tiny = tiny_chain(4, 2)
    infos = fragments_of(tiny.program, "d1")
    assert [info.hash for info in infos] == list(dict.fromkeys(info.hash for info in infos))
    assert all(hashlib.sha256(tiny.graphs[info.hash]).hexdigest() == info.hash for info in infos)


def test_an_interrupted_deployment_is_taken_down_at_once() -> None:
    """A worker that goes on loading is neither waited for nor asked for anything more."""
    lab, loading, retired = FakeLab("d0", "d1"), threading.Event(), threading.Event()
    waited: list[bool] = []

    def interrupt(body: bytes) -> None:
        assert loading.wait(PATIENCE_S)
        raise KeyboardInterrupt

    def load_on(body: bytes) -> Progress:
        loading.set()
        waited.append(retired.wait(PATIENCE_S))
        return Progress(True, 0, 9)

    lab.workers["d0"].answers |= {"progress": interrupt, "retire": lambda body: retired.set()}
    lab.workers["d1"].answers["progress"] = load_on
    with pytest.raises(KeyboardInterrupt):
        bring(lab)
    for thread in threading.enumerate():
        if thread.name.startswith("leader-call"):
            thread.join(PATIENCE_S)
    assert waited == [True]
    assert "calibrate" not in lab.workers["d1"].seen


def test_a_session_that_ends_waits_for_no_deployment() -> None:
    """What is loaded beside the running plan at its end is given up."""
    lab = FakeLab("d0")

    def load_on(body: bytes) -> Progress:
        lab.group.end()
        return Progress(True, 0, 9)

    lab.workers["d0"].answers["progress"] = load_on
    with pytest.raises(RunError, match="The session ended while a plan was deployed"):
        bring(lab)
    assert lab.workers["d0"].seen.count("progress") == 1
    assert lab.workers["d0"].seen[-1] == "retire"
