"""What a worker refuses: programs that cannot run, and more than it has room for."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace as replace_struct
from tests.program_builder import ProgramBuilder
from tests.worker.test_control import Bench, open_bench
from tests.worker.tiny import tiny_chain

from partita.errors import RunError
from partita.program import Program, Send
from partita.worker import control, memory_limit
from partita.worker.messages import MAX_FLOWS, MessageFlow, OfEpoch, Prepare, TimeMessages

__all__ = ["open_bench"]

FALSE_PARTS = {
    "without its part": lambda p: replace_struct(p, devices=()),
    "of buffers that are not there": lambda p: with_part(p, buffers=()),
    "of fragments that are not there": lambda p: replace_struct(p, fragments=()),
    "of streams that are not there": lambda p: with_part(p, steps=(Send(99, 7, 0),)),
    "of an unknown type": lambda p: replace_struct(
        p, inputs=(replace_struct(p.inputs[0], dtype="float33"),)
    ),
    "of no extent": lambda p: replace_struct(p, outputs=()),
}


def with_part(program: Program, **changes: object) -> Program:
    """The program with its only part changed."""
    return replace_struct(program, devices=(replace_struct(program.devices[0], **changes),))


@pytest.mark.parametrize("what", FALSE_PARTS)
def test_a_program_that_cannot_run_is_refused_at_once(bench: Bench, what: str) -> None:
    """One line says what is wrong with it; nothing is prepared, and the next one runs."""
    bench.start()
    tiny = tiny_chain(1, 1)
    false = FALSE_PARTS[what](tiny.program)
    with pytest.raises(RunError, match=r"^Device 'd0': Worker 'd0' refuses the program: "):
        bench.leader.call("prepare", Prepare(1, false, "leader"))
    with pytest.raises(RunError, match="not prepared"):
        bench.leader.progress(1)
    bench.leader.load(tiny)
    assert not bench.leader.progress().error


def fan_out(count: int) -> Program:
    """One step whose result goes to so many other devices, as the first of them sees it."""
    build = ProgramBuilder(count + 1)
    piece = build.feed()
    made = build.compute("d0", [[piece]], "t")
    for number in range(1, count + 1):
        build.send(made, f"d{number}")
    build.deliver([[made]])
    return build.build()


def count_lanes() -> int:
    """The worker's threads that steps run on."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith("d0/") and name != "d0/beat" for name in names)


def test_threads_are_bounded_and_end_with_their_plan(bench: Bench) -> None:
    """A plan that needs more threads than the worker has is refused; retired ones leave none."""
    bench.start(max_lanes=20)
    with pytest.raises(RunError, match=r"sends to 50 devices and would need \d+ threads"):
        bench.leader.call("prepare", Prepare(1, fan_out(50), "leader"))
    assert not count_lanes()
    for epoch in range(5):
        bench.leader.call("prepare", Prepare(epoch, fan_out(15), "leader"))
        bench.leader.join("/load")
        assert count_lanes() > 15
        bench.leader.call("retire", OfEpoch(epoch))
    deadline_s = time.monotonic() + 5
    while count_lanes() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not count_lanes()


def test_plans_are_few(bench: Bench) -> None:
    """A worker holds no more plans than it is told to; one that ends makes room."""
    bench.start(max_plans=2)
    program = tiny_chain(1, 1).program
    for epoch in (1, 2):
        bench.leader.call("prepare", Prepare(epoch, program, "leader"))
    with pytest.raises(RunError, match="holds 2 plans already"):
        bench.leader.call("prepare", Prepare(3, program, "leader"))
    bench.leader.call("retire", OfEpoch(1))
    bench.leader.call("prepare", Prepare(3, program, "leader"))


@pytest.mark.parametrize(("size", "repeats"), [(-1, 1), (2**40, 1), (1, 0), (1, 10**9)])
def test_probes_without_bounds_are_refused(bench: Bench, size: int, repeats: int) -> None:
    """How large and how many probes are is checked before anything is allocated."""
    bench.start()
    with pytest.raises(RunError, match=r"Message TimeMessages of .* is malformed"):
        bench.leader.call("probe", TimeMessages((MessageFlow("d1", size, repeats),)))


@pytest.mark.parametrize("count", [0, MAX_FLOWS + 1])
def test_more_flows_of_probes_than_threads_are_refused(bench: Bench, count: int) -> None:
    """Each takes a thread; a leader that asks for none is told, too."""
    bench.start()
    with pytest.raises(RunError, match=r"Message TimeMessages of .* is malformed"):
        bench.leader.call("probe", TimeMessages((MessageFlow("d1", 1, 1),) * count))


def test_what_grows_beyond_the_limit_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Working memory and pieces come after loading: it is looked at when a plan begins, and on."""
    held = [1_000_000]
    monkeypatch.setattr(control, "BEAT_S", 0.001)
    monkeypatch.setattr(memory_limit, "private_bytes", lambda: held[0])
    bench.start(memory_limit_bytes=20_000_000, idle_bytes=3_000_000)
    bench.leader.load(tiny_chain(1, 1))
    held[0] = 25_000_000
    bench.leader.call("activate", OfEpoch(1))
    held[0] = 27_000_000  # of which 25 MB may be the plan's, as predictions are off by so much
    failure = bench.leader.failure()
    told = "holds 26 MB beyond an idle worker, the limit is 20 MB"
    assert (failure.epoch, failure.step) == (1, "memory")
    assert told in failure.message
    bench.leader.call("retire", OfEpoch(1))
    held[0] = 1_000_000
    bench.leader.load(tiny_chain(1, 1), epoch=2)
    held[0] = 27_000_000
    with pytest.raises(RunError, match=f"{told}|is not ready"):
        bench.leader.call("activate", OfEpoch(2))
