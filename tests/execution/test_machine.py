"""The state machine on small programs, event by event."""

from __future__ import annotations

import pytest
from tests.program_builder import ProgramBuilder, chain

from partita.execution import (
    Arrived,
    Credited,
    Delivered,
    Fed,
    Finished,
    Free,
    GiveCredit,
    Loaded,
    Machine,
    Start,
    StartLoad,
)
from partita.program import Compute, Load, Program, Receive, Send


def loaded_machine(program: Program, device: str, *, in_flight: int = 4) -> Machine:
    """Return a device's machine with all fragments loaded."""
    machine = Machine(program.device(device), program.streams, in_flight)
    todo = machine.begin()
    while todo:
        todo = [more for load in todo for more in machine.handle(Loaded(load.step))]
    return machine


def ids(program: Program, device: str, kind: type) -> list[int]:
    """Return a device's step ids of one kind, in program order."""
    return [step.id for step in program.device(device).steps if isinstance(step, kind)]


def test_one_device_runs_a_request_to_its_delivery() -> None:
    """Feed, compute, deliver; buffers are freed by their last readers; the request is forgotten."""
    program = chain(1, 1)
    machine = loaded_machine(program, "d0")
    (compute,) = ids(program, "d0", Compute)
    assert machine.handle(Fed(0, ())) == [Start(compute, 0)]
    free_input, deliver = machine.handle(Finished(compute, 0))
    assert free_input == Free(0, 0)
    assert isinstance(deliver, Start)
    assert machine.handle(Finished(deliver.step, 0)) == [Free(1, 0), Delivered(0)]
    assert machine.open_requests == ()


def test_compute_waits_for_its_fragment() -> None:
    """A compute step starts when its load ends, while later loads go on."""
    program = chain(2, 1)
    machine = Machine(program.device("d0"), program.streams, 1)
    loads = ids(program, "d0", Load)
    first, second = ids(program, "d0", Compute)
    assert machine.begin() == [StartLoad(loads[0])]
    assert machine.handle(Fed(0, ())) == []
    # The builder puts the newest load first: the second stage's fragment comes first.
    assert machine.handle(Loaded(loads[0])) == [StartLoad(loads[1])]
    assert machine.handle(Loaded(loads[1])) == [Start(first, 0)]
    assert machine.is_loaded
    assert Start(second, 0) in machine.handle(Finished(first, 0))


def test_several_loaders_load_at_the_same_time() -> None:
    """As many loads start at once as there are loaders."""
    program = chain(3, 1)
    machine = Machine(program.device("d0"), program.streams, 1, loaders=2)
    assert len(machine.begin()) == 2


def test_lane_takes_oldest_request_then_program_order() -> None:
    """With request 0's second step and request 1's first ready, the older request goes first."""
    program = chain(2, 1, in_flight=2)
    machine = loaded_machine(program, "d0")
    first, second = ids(program, "d0", Compute)
    machine.handle(Fed(0, ()))
    machine.handle(Fed(1, ()))
    actions = machine.handle(Finished(first, 0))
    assert Start(second, 0) in actions
    assert Start(first, 1) not in actions


def test_queues_count_what_steps_find_before_them() -> None:
    """The fifth request finds four on the lane: one at work, three queued."""
    program = chain(1, 1)
    machine = loaded_machine(program, "d0", in_flight=8)
    for request in range(5):
        machine.handle(Fed(request, ()))
    assert machine.queues["compute"][:4] == (1, 1, 2, 1)
    (compute,) = ids(program, "d0", Compute)
    for request in range(5):
        machine.handle(Finished(compute, request))
    assert sum(machine.queues["compute"]) == 5
    assert machine.queues["deliver"][:4] == (1, 1, 2, 1)
    assert not any(machine.queues["receive"])


def test_sends_without_credit_count_as_queued() -> None:
    """What waits for a credit, or for its turn after that, is there though the lane is idle."""
    build = ProgramBuilder(2, in_flight=4)
    build.deliver([[build.send(build.send(build.feed(), "d1", credit=1), "d0")]])
    program = build.build()
    machine = loaded_machine(program, "d0", in_flight=8)
    (send,) = ids(program, "d0", Send)
    machine.handle(Fed(0, ()))
    machine.handle(Finished(send, 0))
    for request in (1, 2, 3):
        machine.handle(Fed(request, ()))
    assert machine.queues["send:d1"][:3] == (2, 1, 1)
    machine.handle(Credited(0))
    machine.handle(Finished(send, 1))
    machine.handle(Fed(4, ()))
    assert machine.queues["send:d1"][:3] == (2, 1, 2)


def test_send_without_credit_lets_other_streams_pass() -> None:
    """The first stream's second piece waits for credit; the second stream goes ahead meanwhile."""
    build = ProgramBuilder(2, in_flight=2)
    first, second = build.feed("a"), build.feed("b")
    copies = [build.send(first, "d1", credit=1), build.send(second, "d1", credit=2)]
    out = build.compute("d1", [[copy] for copy in copies], "t")
    build.deliver([[build.send(out, "d0")]])
    program = build.build()
    machine = loaded_machine(program, "d0")
    send_a, send_b = ids(program, "d0", Send)
    assert machine.handle(Fed(0, ())) == [Start(send_a, 0)]
    assert machine.handle(Fed(1, ())) == []
    assert Start(send_b, 0) in machine.handle(Finished(send_a, 0))
    # Stream a has no credit for request 1: stream b takes the lane.
    assert Start(send_b, 1) in machine.handle(Finished(send_b, 0))
    assert not any(isinstance(a, Start) for a in machine.handle(Finished(send_b, 1)))
    assert machine.handle(Credited(0)) == [Start(send_a, 1)]


def test_credit_goes_back_when_the_last_reader_is_done() -> None:
    """The receiver keeps a stream's credit until the piece is freed."""
    program = chain(2, 2)
    machine = loaded_machine(program, "d1")
    (receive,) = ids(program, "d1", Receive)
    (compute,) = ids(program, "d1", Compute)
    assert machine.handle(Arrived(0, 0, ())) == [Start(receive, 0)]
    assert machine.handle(Finished(receive, 0)) == [Start(compute, 0)]
    actions = machine.handle(Finished(compute, 0))
    assert GiveCredit(0) in actions


def test_piece_that_nobody_reads_is_freed_at_once() -> None:
    """A buffer without readers is dropped when it is written."""
    build = ProgramBuilder(1)
    piece = build.feed()
    build.compute("d0", [[piece]], "unused")
    build.deliver([[build.compute("d0", [[piece]], "t")]])
    program = build.build()
    machine = loaded_machine(program, "d0")
    unused, _ = ids(program, "d0", Compute)
    machine.handle(Fed(0, ()))
    assert Free(1, 0) in machine.handle(Finished(unused, 0))


def test_pieces_that_overtake_wait_for_their_turn() -> None:
    """When request 1's piece comes before request 0's, request 0 is still decoded first."""
    program = chain(2, 2, in_flight=2, credit=2)
    machine = loaded_machine(program, "d1")
    (receive,) = ids(program, "d1", Receive)
    assert machine.handle(Arrived(0, 1, ())) == []
    assert machine.handle(Arrived(0, 0, ())) == [Start(receive, 0)]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Finished(999, 0), "was not started"),
        (Finished(1, 0), "was not started"),
        (Arrived(1, 0, ()), "does not receive"),
        (Arrived(0, 5, ()), "exceeds the stream's 1 credits"),
        (Arrived(0, 0, ()), "came before"),
        (Credited(0), "does not send"),
        (Credited(1), "has all its credits"),
        (Loaded(0), "was not started"),
        (Fed(0, ()), "feeds no inputs"),
    ],
)
def test_impossible_events_are_refused(event: object, message: str) -> None:
    """Each event that cannot be names what is wrong with it."""
    program = chain(2, 2)
    machine = loaded_machine(program, "d1")
    machine.handle(Arrived(0, 0, ()))
    with pytest.raises(ValueError, match=message):
        machine.handle(event)  # type: ignore[arg-type]


def test_finished_request_does_not_come_again() -> None:
    """A late double of a finished request is told from a new request."""
    program = chain(1, 1)
    machine = loaded_machine(program, "d0")
    (compute,) = ids(program, "d0", Compute)
    machine.handle(Fed(0, ()))
    deliver = machine.handle(Finished(compute, 0))[-1]
    machine.handle(Finished(deliver.step, 0))
    with pytest.raises(ValueError, match="came before"):
        machine.handle(Fed(0, ()))


def test_more_requests_than_allowed_are_refused() -> None:
    """The leader may not feed more than the in-flight limit."""
    machine = loaded_machine(chain(1, 1), "d0", in_flight=1)
    machine.handle(Fed(0, ()))
    with pytest.raises(ValueError, match="exceeds the 1 requests"):
        machine.handle(Fed(1, ()))


def test_short_route_is_refused() -> None:
    """A request without the choices that the steps need is an error, not a guess."""
    build = ProgramBuilder(1, routes=(1,))
    build.deliver([[build.compute("d0", [[build.feed()]], "t", when=((0, 0),))]])
    machine = loaded_machine(build.build(), "d0")
    with pytest.raises(ValueError, match="0 choices"):
        machine.handle(Fed(0, ()))


def test_replicas_run_only_the_chosen_steps() -> None:
    """The route skips the other replica's compute and its buffer."""
    build = ProgramBuilder(1, in_flight=2, routes=(2,))
    piece = build.feed()
    pieces = [build.compute("d0", [[piece]], "t", when=((0, choice),)) for choice in (0, 1)]
    build.deliver([pieces])
    program = build.build()
    machine = loaded_machine(program, "d0")
    _, second = ids(program, "d0", Compute)
    assert machine.handle(Fed(0, (1,))) == [Start(second, 0)]
    assert machine.route_of(0) == (1,)
    free_input, deliver = machine.handle(Finished(second, 0))
    assert free_input == Free(0, 0)
    assert machine.handle(Finished(deliver.step, 0)) == [Free(2, 0), Delivered(0)]


def test_state_says_what_each_step_waits_for() -> None:
    """The summary names step, request, and the device or tensor that is missing."""
    program = chain(3, 2)
    machine = loaded_machine(program, "d0")
    machine.handle(Fed(0, ()))
    reasons = {wait.label: wait.reason for wait in machine.state()}
    assert reasons["make t0"] == "is running"
    assert reasons["send t0 to d1"] == "waits for 't0'"
    assert reasons["receive t1 from d1"] == "waits for 'd1' to send"
    assert reasons["deliver"] == "waits for 't2'"
