"""One epoch on one device: frames in, pieces, credits and failures out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.worker.bench import EPOCH, Bench, FaultyEngine, ramp, with_wire
from tests.worker.tiny import expected_chain, tiny_chain, tiny_halo, weight_of

from partita.errors import RunError
from partita.fabric import Credit, Failure, digest_stream
from partita.worker.messages import FIRST_ANSWER, answer_streams


@pytest.fixture
def middle(tmp_path: Path) -> Bench:
    """The second device of a chain of three, loaded: it receives, computes and sends."""
    bench = Bench(tiny_chain(in_flight=2, credit=2), tmp_path, "d1")
    bench.load()
    return bench


def test_an_epoch_is_loaded_once_all_its_fragments_are(tmp_path: Path) -> None:
    """Loading goes through all fragments of the device and of no other."""
    bench = Bench(tiny_chain(4, 2), tmp_path)
    assert not bench.runtime.is_loaded
    assert bench.runtime.load_counts == (0, 2)
    bench.load()
    assert bench.runtime.is_loaded
    assert bench.runtime.load_counts == (2, 2)


def test_a_piece_comes_out_computed_and_its_credit_goes_back(middle: Bench) -> None:
    """What arrives is multiplied and sent under the same request; the sender may send again."""
    into, out = middle.program.streams[:2]
    middle.take(into, ramp())
    middle.lanes.run()
    ((header, payload),) = middle.ears["d2"].pieces
    assert (header.epoch, header.request, header.stream) == (EPOCH, 0, out.id)
    assert header.digest == digest_stream(out)
    np.testing.assert_array_equal(np.frombuffer(payload, "f4"), ramp() * weight_of("make t1"))
    assert middle.ears["d0"].notes == [Credit(EPOCH, into.id)]


def test_arrays_are_freed_after_their_last_reader(middle: Bench) -> None:
    """Nothing is held once a request has left the device, and the peak is what was held."""
    middle.take(middle.program.streams[0], ramp())
    assert middle.runtime.arrays.bytes == 16
    middle.lanes.run()
    assert middle.runtime.arrays.bytes == 0
    assert middle.runtime.stats().peak_piece_bytes == 32


def test_a_second_piece_waits_for_the_credit_of_the_next_device(tmp_path: Path) -> None:
    """With one credit the second result is held back until the receiver has read the first."""
    bench = Bench(tiny_chain(in_flight=2, credit=1), tmp_path, "d1")
    bench.load()
    into, out = bench.program.streams[:2]
    for request in range(2):
        bench.take(into, ramp(), request)
        bench.lanes.run()
    assert [header.request for header, _ in bench.ears["d2"].pieces] == [0]
    (wait,) = bench.runtime.stats().waiting
    assert (wait.request, wait.label) == (1, "send t1 to d2")
    assert "credit" in wait.reason
    bench.runtime.credit("d1", out.id)
    bench.lanes.run()
    assert len(bench.ears["d2"].pieces) == 1  # only its target gives credit
    bench.runtime.credit("d2", out.id)
    bench.lanes.run()
    assert [header.request for header, _ in bench.ears["d2"].pieces] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epoch": EPOCH + 1}, "epoch 8"),
        ({"digest": b"12345678"}, "another shape"),
        ({"source": "d2"}, "comes from 'd0'"),
        ({"stream": 1}, "does not end here"),
        ({"payload_bytes": 12}, "header says 12"),
    ],
)
def test_a_frame_that_does_not_fit_the_program_changes_nothing(
    middle: Bench, changes: dict[str, object], reason: str
) -> None:
    """Another epoch, shape, sender, stream or length is refused before anything is kept."""
    with pytest.raises(RunError, match=reason):
        middle.take(middle.program.streams[0], ramp(), **changes)
    assert middle.runtime.arrays.bytes == 0
    assert middle.lanes.run() == 0


def test_a_piece_that_comes_twice_counts_once(middle: Bench) -> None:
    """A double is dropped before its request is computed, meanwhile, and afterwards."""
    into = middle.program.streams[0]
    middle.take(into, ramp())
    middle.take(into, -ramp())
    middle.lanes.run(most=1)
    middle.take(into, -ramp())
    middle.lanes.run()
    middle.take(into, -ramp())
    middle.lanes.run()
    assert len(middle.ears["d2"].pieces) == 1
    assert np.frombuffer(middle.ears["d2"].pieces[0][1], "f4")[0] > 0
    assert middle.runtime.stats().dropped == 3
    assert middle.runtime.arrays.bytes == 0


def test_a_double_of_a_piece_that_waits_for_decoding_is_dropped(tmp_path: Path) -> None:
    """The payload that came first is kept and decoded; the double does not take its place."""
    bench = Bench(with_wire(tiny_chain(), "float16"), tmp_path, "d1")
    bench.load()
    into = bench.program.streams[0]
    for sign in (1, -1):
        bench.take(into, sign * ramp().astype(np.float16))
    bench.lanes.run()
    ((_, payload),) = bench.ears["d2"].pieces
    assert np.frombuffer(payload, "f2")[0] > 0
    assert not bench.runtime.error


def test_only_the_first_failure_is_told(middle: Bench) -> None:
    """What fails after it is its consequence: the leader gets one note."""
    for reason in ("first", "second"):
        middle.runtime.fail("network", RunError(reason))
    middle.lanes.run()
    assert middle.runtime.error == "network: first"
    (note,) = middle.ears["leader"].notes
    assert isinstance(note, Failure)
    assert note.message == "first"


def test_a_request_is_answered_from_its_own_input(tmp_path: Path) -> None:
    """The requester hands the outputs to the leader, with the epoch's digest of the answer."""
    tiny = tiny_chain(2, 1)
    bench = Bench(tiny, tmp_path)
    bench.load()
    bench.feed(ramp())
    bench.lanes.run()
    ((header, payload),) = bench.ears["leader"].pieces
    assert (header.stream, header.request) == (FIRST_ANSWER, 0)
    assert header.digest == digest_stream(answer_streams(tiny.program, "leader")[0])
    np.testing.assert_array_equal(
        np.frombuffer(payload, "f4"), expected_chain(tiny.program, ramp())
    )


def test_a_request_beyond_the_limit_waits_for_a_delivery(tmp_path: Path) -> None:
    """A leader that feeds early is served when the request before it is delivered."""
    bench = Bench(tiny_chain(1, 1), tmp_path)
    bench.load()
    bench.feed(ramp(), 0)
    bench.feed(-ramp(), 1)
    assert {wait.request for wait in bench.runtime.stats().waiting} == {0}
    bench.lanes.run()
    answers = [np.frombuffer(payload, "f4")[0] for _, payload in bench.ears["leader"].pieces]
    assert [np.sign(answer) for answer in answers] == [1, -1]


@pytest.mark.parametrize(("in_flight", "has_lane"), [(1, False), (2, True)])
def test_a_lone_request_is_delivered_without_a_context_switch(
    tmp_path: Path, in_flight: int, has_lane: bool
) -> None:
    """The thread that computed also delivers, unless other requests may want it."""
    bench = Bench(tiny_chain(1, 1, in_flight=in_flight), tmp_path)
    bench.load()
    for request in range(in_flight):
        bench.feed(ramp(), request)
    bench.lanes.run()
    assert len(bench.ears["leader"].pieces) == in_flight
    assert ("deliver" in bench.lanes.seen) == has_lane


def test_rows_of_two_devices_become_one_argument(tmp_path: Path) -> None:
    """The requester waits for the other half and puts each row where it belongs."""
    bench = Bench(tiny_halo(), tmp_path)
    bench.load()
    bench.feed(ramp(8))
    bench.lanes.run()
    assert bench.ears["leader"].pieces == []
    half = bench.program.streams[1]
    bench.take(half, 100 + ramp(half.box.size))
    bench.lanes.run()
    ((_, payload),) = bench.ears["leader"].pieces
    weight = np.float32(weight_of("make a"))
    expected = np.concatenate([ramp(8)[:5] * weight, 100 + ramp(half.box.size)[2:]])
    np.testing.assert_array_equal(
        np.frombuffer(payload, "f4"), expected * np.float32(weight_of("make b"))
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (RuntimeError("out of luck\nmore"), "out of luck"),
        (np.zeros(3, np.float32), "float32[3], the program says float32[4]"),
        (np.zeros(4, np.float64), "float64[4], the program says float32[4]"),
    ],
)
def test_a_step_that_fails_is_told_once_and_nothing_runs_on(
    tmp_path: Path, answer: Exception | np.ndarray, message: str
) -> None:
    """The leader hears of step and request in one line; later requests are not begun."""
    bench = Bench(tiny_chain(1, 1, in_flight=2), tmp_path, engine=FaultyEngine(answer))
    bench.load()
    for request in range(2):
        bench.feed(ramp(), request)
    bench.lanes.run()
    (note,) = bench.ears["leader"].notes
    assert isinstance(note, Failure)
    assert (note.epoch, note.device, note.step, note.request) == (EPOCH, "d0", "make t0", 0)
    assert message in note.message
    assert "\n" not in note.message
    assert bench.ears["leader"].pieces == []
    assert bench.runtime.error.startswith("make t0: ")


def test_content_that_is_missing_fails_the_load(tmp_path: Path) -> None:
    """A fragment that is not in the store ends the loading with its name."""
    bench = Bench(tiny_chain(2, 1), tmp_path, is_stocked=False)
    bench.load()
    bench.lanes.run()
    assert "is not there; deploy the plan again" in bench.runtime.error
    assert not bench.runtime.is_loaded
    (note,) = bench.ears["leader"].notes
    assert isinstance(note, Failure)
    assert note.step.startswith("load of fragment")


def test_a_lost_sender_of_credits_and_a_lost_leader_end_nothing_else(middle: Bench) -> None:
    """A closed network is a failure of the epoch; without a leader there is nobody to tell."""
    middle.take(middle.program.streams[0], ramp())
    middle.runtime.context.endpoint.close()
    middle.lanes.run()
    assert "is closed" in middle.runtime.error


def test_a_credit_that_no_stream_has_is_a_failure(middle: Bench) -> None:
    """One credit too many means that the two ends disagree: the run ends instead of hanging."""
    middle.runtime.credit("d2", middle.program.streams[1].id)
    middle.lanes.run()
    assert "has all its credits" in middle.runtime.error


def test_a_closed_epoch_holds_and_starts_nothing(middle: Bench) -> None:
    """After the end neither jobs that wait nor frames that come do anything."""
    middle.take(middle.program.streams[0], ramp(), 0)
    middle.runtime.close()
    middle.lanes.run()
    assert middle.ears["d2"].pieces == []
    assert middle.runtime.load_counts[0] == 0
    middle.take(middle.program.streams[0], ramp(), 1)
    assert middle.lanes.run() == 0
    assert middle.runtime.arrays.bytes == 0
    middle.runtime.credit("d2", middle.program.streams[1].id)
    assert not middle.runtime.error


def test_sums_say_what_was_computed_and_sent(middle: Bench) -> None:
    """Runs, messages and bytes are counted per step and per target."""
    for request in range(2):
        middle.take(middle.program.streams[0], ramp(), request)
    middle.lanes.run()
    stats = middle.runtime.stats()
    (computed,), (sent,) = stats.worked, stats.sent
    assert computed.count == 2
    assert computed.busy_s == pytest.approx(stats.busy_s)
    assert 0 < computed.p50_s <= computed.p99_s <= 1.02 * computed.busy_s
    queues = {queue.lane: queue.found for queue in stats.queues}
    assert queues["compute"][:2] == (1, 1)
    assert (sent.target, sent.bytes, sent.messages) == ("d2", 32, 2)
    assert sent.wire_s <= sent.busy_s
    assert stats.weight_bytes == 4
    spans = middle.runtime.log.spans(0, 100)
    assert [(s.lane, s.request) for s in spans if s.lane == "compute"] == [
        ("compute", 0),
        ("compute", 1),
    ]


def test_an_epoch_belongs_to_all_that_it_exchanges_pieces_with(middle: Bench) -> None:
    """A fault of any device of the program, or of the leader, is the epoch's; others' is not."""
    assert middle.runtime.members == {"d0", "d1", "d2", "leader"}
