"""Single steps: how they encode, decode and pace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.engine.test_slowed import VirtualClock
from tests.worker.bench import Bench, ramp, with_wire
from tests.worker.tiny import tiny_chain

from partita.engine import Slowdown
from partita.program import Feed, Load, Send
from partita.regions import encode_array
from partita.worker.port_turns import LARGE_BYTES, PortTurns
from partita.worker.step_runners import SendRunner, StepPacing, make_step_runner


@pytest.mark.parametrize(("wire", "is_instant"), [("raw", True), ("float16", False)])
def test_only_raw_payloads_are_decoded_where_they_arrive(
    tmp_path: Path, wire: str, is_instant: bool
) -> None:
    """A view costs less than a context switch; decoding takes its turn on the receiving lane."""
    bench = Bench(with_wire(tiny_chain(), wire), tmp_path, "d1")
    receive = next(r for r in bench.runtime.step_runners.values() if r.lane == "receive")
    assert receive.is_instant == is_instant
    assert receive.label == "receive t0 from d0"


def test_a_lossy_piece_is_encoded_once_and_decoded_once(tmp_path: Path) -> None:
    """On a float16 stream half of the bytes travel; what is computed is of the decoded values."""
    bench = Bench(with_wire(tiny_chain(), "float16"), tmp_path, "d1")
    bench.load()
    bench.take(bench.program.streams[0], ramp().astype(np.float16))
    bench.lanes.run()
    assert "receive" in bench.lanes.seen
    ((header, payload),) = bench.ears["d2"].pieces
    assert header.payload_bytes == len(payload) == 8
    np.testing.assert_array_equal(np.frombuffer(payload, "f2"), ramp() * 3)


def test_a_damaged_piece_is_the_fault_of_the_way_it_came(tmp_path: Path) -> None:
    """Its sender is named, as of a broken link: so a leader that recovers feeds the input again."""
    bench = Bench(with_wire(tiny_chain(), "uint4"), tmp_path, "d1")
    bench.load()
    payload = bytearray(encode_array(ramp(), "uint4"))
    payload[-1] ^= 1
    bench.take(bench.program.streams[0], np.frombuffer(payload, np.uint8))
    bench.lanes.run()
    (failure,) = bench.ears["leader"].notes
    assert failure.peer == "d0"
    assert failure.step == "receive t0 from d0"
    assert failure.message == "payload of 14 bytes in format uint4 was damaged on the way"


def test_messages_leave_a_port_in_the_order_of_their_steps(tmp_path: Path) -> None:
    """A turn is taken when a step is started; whichever thread comes first waits for its own."""
    bench = Bench(tiny_chain(), tmp_path)
    bench.load()
    clock = VirtualClock()
    context = replace(
        bench.runtime.context, port_turns=PortTurns(clock), port_bytes_per_s=LARGE_BYTES / 2.0
    )
    stream = msgspec.structs.replace(bench.program.streams[0], wire_bytes=LARGE_BYTES)
    context = replace(context, streams={**context.streams, stream.id: stream})
    step = next(s for s in bench.program.device("d0").steps if isinstance(s, Send))
    sender = SendRunner(step, context)
    began_s = clock.time_s
    for request in (0, 1):
        sender.take_turn(request)
        context.arrays.keep(request, ((sender.read, ramp()),))
    for request in (1, 0):
        sender.run(request, ())
        assert clock.time_s - began_s == pytest.approx(2.0)


def test_loads_and_feeds_have_nothing_to_run(tmp_path: Path) -> None:
    """They are events of the machine; every other step has a lane and a label."""
    bench = Bench(tiny_chain(), tmp_path)
    context = bench.runtime.context
    for step in bench.program.device("d0").steps:
        runner = make_step_runner(step, context)
        assert (runner is None) == isinstance(step, Load | Feed)
        if runner is not None:
            assert runner.step == step.id
            assert runner.lane
            assert runner.label


def test_only_what_was_timed_is_paced() -> None:
    """A step waits for its slowed time; without a measurement it takes what it takes."""
    clock = VirtualClock()
    pacing = StepPacing(Slowdown(4.0, clock), {7: 0.5})
    pacing.finish(8, 100.0)
    assert clock.now_s() == 100.0
    pacing.finish(7, 100.0)
    assert clock.now_s() == 102.0
    assert pacing.slow_down.overruns == 0
