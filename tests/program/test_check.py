"""The program check: a good program passes, each planted fault is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.program_builder import ProgramBuilder

from partita.program import (
    Compute,
    Deliver,
    Feed,
    Input,
    Load,
    Program,
    Receive,
    Send,
    Step,
    check_part,
    check_program,
    find_leaks,
)
from partita.regions import Region

replace = msgspec.structs.replace


def good_program() -> Program:
    """Return two stages over two devices: halves of the first on each, joined on the second."""
    build = ProgramBuilder(2, in_flight=2)
    piece = build.feed()
    upper = build.compute("d0", [[piece]], "a", box=(0, 2))
    lower = build.compute("d1", [[build.send(piece, "d1")]], "a", box=(2, 4))
    joined = build.compute("d1", [[build.send(upper, "d1"), lower]], "b")
    build.deliver([[build.send(joined, "d0")]])
    return build.build()


def edit_step(program: Program, device: str, kind: type, **changes: Any) -> Program:
    """Return the program with the device's last step of a kind changed."""
    part = program.device(device)
    steps = list(part.steps)
    place = max(i for i, step in enumerate(steps) if isinstance(step, kind))
    steps[place] = replace(steps[place], **changes)
    return with_steps(program, device, steps)


def with_steps(program: Program, device: str, steps: list[Step]) -> Program:
    """Return the program with other steps on a device."""
    return replace(
        program,
        devices=tuple(
            replace(part, steps=tuple(steps)) if part.device == device else part
            for part in program.devices
        ),
    )


def without(program: Program, device: str, kind: type) -> Program:
    """Return the program without the device's steps of a kind."""
    return with_steps(
        program, device, [s for s in program.device(device).steps if not isinstance(s, kind)]
    )


def edit_stream(program: Program, **changes: Any) -> Program:
    """Return the program with its first stream changed."""
    first, *rest = program.streams
    return replace(program, streams=(replace(first, **changes), *rest))


def edit_buffer(program: Program, device: str, **changes: Any) -> Program:
    """Return the program with the device's first buffer changed."""
    part = program.device(device)
    first, *rest = part.buffers
    changed = replace(part, buffers=(replace(first, **changes), *rest))
    return replace(
        program, devices=tuple(changed if p.device == device else p for p in program.devices)
    )


def narrow_read(program: Program) -> Program:
    """Return the program with the joining step's first piece left out."""
    (read,) = next(s for s in reversed(program.device("d1").steps) if isinstance(s, Compute)).reads
    return edit_step(program, "d1", Compute, reads=(replace(read, buffers=read.buffers[1:]),))


FAULTS: dict[str, Callable[[Program], Program]] = {
    "step id 0 is used 2 times": lambda p: edit_step(p, "d1", Send, id=0),
    "requester 'd7' has no steps": lambda p: replace(p, requester="d7"),
    "uses unknown stream 9": lambda p: edit_step(p, "d0", Send, stream=9),
    "needs one Send on 'd0', has them on": lambda p: without(p, "d0", Send),
    "needs one Receive on 'd1', has them on": lambda p: without(p, "d1", Receive),
    "needs one Send on 'd1'": lambda p: edit_stream(p, source="d1"),
    "from 'd0' to itself": lambda p: edit_stream(p, target="d0"),
    "has credit -1, at least 0": lambda p: edit_stream(p, credit=-1),
    "unknown wire format 'pigeon'": lambda p: edit_stream(p, wire="pigeon"),
    "counts 15 bytes": lambda p: edit_stream(p, wire_bytes=15),
    "is used when ((0, 1),)": lambda p: edit_stream(p, when=((0, 1),)),
    "asks for choice (0, 1), the routes are ()": lambda p: edit_step(
        p, "d0", Compute, when=((0, 1),)
    ),
    "uses buffers [99], which are not on the device": lambda p: edit_step(p, "d0", Feed, write=99),
    "writes buffer 2, which another step writes": lambda p: edit_step(
        p, "d1", Compute, writes=(2,)
    ),
    "is written by no step": lambda p: edit_step(p, "d1", Compute, writes=()),
    "counts 5 readers, has 2": lambda p: edit_buffer(p, "d0", readers=5),
    "reads [0:2] of 'a', which is not on the device": narrow_read,
    "before they are written": lambda p: with_steps(p, "d1", list(reversed(p.device("d1").steps))),
    "shares are given for 1 of 0 replicated stages": lambda p: replace(p, shares=((1, 1),)),
    "shares (1, 0) need 2 whole numbers of at least 1": lambda p: replace(
        p, routes=(2,), shares=((1, 0),)
    ),
    "add up to 1000 at most": lambda p: replace(p, routes=(2,), shares=((10**9, 1),)),
    "shares (2,) need 2 whole": lambda p: replace(p, routes=(2,), shares=((2,),)),
    "names fragment 7 of 3": lambda p: edit_step(p, "d0", Load, fragment=7),
    "which the device does not load": lambda p: without(p, "d0", Load),
    "reads nothing": lambda p: edit_step(p, "d0", Compute, reads=()),
    "has a buffer of 'other' float32": lambda p: edit_buffer(p, "d0", tensor="other"),
    "from a buffer of 'other'": lambda p: edit_buffer(p, "d0", tensor="other"),
    "sends [0:4] out of a buffer of [0:3]": lambda p: edit_buffer(p, "d0", box=Region(((0, 3),))),
    "writes [0:4] into a buffer of [0:3]": lambda p: edit_buffer(p, "d1", box=Region(((0, 3),))),
    "not the requester": lambda p: replace(p, requester="d1"),
    "which is no input": lambda p: edit_step(p, "d0", Feed, tensor="x"),
    "input 'input' is fed as [], not whole": lambda p: edit_step(p, "d0", Feed, tensor="x"),
    "has 0 deliver steps": lambda p: without(p, "d0", Deliver),
    "every output must be there, whole": lambda p: replace(p, outputs=p.outputs + p.inputs),
}


def test_good_program_has_no_faults() -> None:
    """Nothing is wrong with the program that the faults below are planted in."""
    assert check_program(good_program()) == []


@pytest.mark.parametrize("message", FAULTS)
def test_planted_fault_is_named(message: str) -> None:
    """Each fault is found and said in words that name what breaks the rule."""
    faults = check_program(FAULTS[message](good_program()))
    assert any(message in fault for fault in faults), faults


#: What one device's part cannot show: it concerns two devices.
BETWEEN_DEVICES = {"step id 0 is used 2 times"}


@pytest.mark.parametrize("message", FAULTS)
def test_a_planted_fault_is_seen_by_a_device(message: str) -> None:
    """What is wrong with one device's part is found without the other's."""
    program = FAULTS[message](good_program())
    parts = [replace(program, devices=(part,)) for part in program.devices]
    faults = [fault for part in parts for fault in check_part(part, part.devices[0].device)]
    assert bool(faults) == (message not in BETWEEN_DEVICES), faults


def test_the_parts_of_a_good_program_have_no_faults() -> None:
    """Each device accepts its part, with and without the other's in the message."""
    program = good_program()
    for part in program.devices:
        assert check_part(program, part.device) == []
        assert check_part(replace(program, devices=(part,)), part.device) == []


FALSE_FIELDS: dict[str, Callable[[Program], Program]] = {
    "is of type 'float33'": lambda p: edit_buffer(p, "d0", dtype="float33"),
    "is of type 'O'": lambda p: edit_stream(p, dtype="O"),
    "begins before 0": lambda p: edit_buffer(p, "d0", box=Region(((-1, 3),))),
    "after its end": lambda p: edit_stream(p, box=Region(((3, 1),))),
    "reads a box [3:1]": lambda p: edit_step(
        p, "d0", Compute, reads=(Input("input", Region(((3, 1),)), (0,)),)
    ),
    "negative extent": lambda p: replace(p, inputs=(replace(p.inputs[0], shape=(-4,)),)),
    "more than 1099511627776 bytes": lambda p: replace(
        p, outputs=(replace(p.outputs[0], shape=(2**40,)),)
    ),
    "more than 16384 replicas": lambda p: replace(p, routes=(10**9, 10**9)),
    "is more than 1048576": lambda p: replace(p, in_flight=10**9),
}


@pytest.mark.parametrize("message", FALSE_FIELDS)
def test_fields_that_mean_nothing_are_named(message: str) -> None:
    """Types, boxes and counts that no program has are said by both checks, and nothing hangs."""
    program = FALSE_FIELDS[message](good_program())
    for faults in (check_program(program), check_part(program, "d0")):
        assert any(message in fault for fault in faults), faults


def test_a_device_needs_a_part_and_ends_with_names() -> None:
    """A program without the device's part, and a stream to what is no name, are refused."""
    assert check_part(good_program(), "d7") == ["'d7' has 0 parts, 1 is needed"]
    (fault, *_) = check_part(edit_stream(good_program(), target="a/b"), "d0")
    assert "'a/b', which is no name of a device" in fault


def test_circle_over_two_devices_is_found() -> None:
    """Two devices that each wait for the other's piece, though each one's own order is right."""
    build = ProgramBuilder(2)
    loop = build.send(build.compute("d0", [[build.feed()]], "x"), "d1")
    back = build.send(build.compute("d1", [[loop]], "x"), "d0")
    build.deliver([[build.compute("d0", [[back]], "y")]])
    program = build.build()
    assert check_program(program) == []
    # The first device sends what it receives from the second, which sends what comes of it.
    part = program.device("d0")
    receive = next(s for s in part.steps if isinstance(s, Receive))
    send = next(s for s in part.steps if isinstance(s, Send))
    steps = [s for s in part.steps if s is not send]
    steps.insert(steps.index(receive) + 1, replace(send, read=receive.write))
    buffers = [replace(b, readers=2 if b.id == receive.write else b.readers) for b in part.buffers]
    buffers = [replace(b, readers=0) if b.id == send.read else b for b in buffers]
    changed = replace(part, steps=tuple(steps), buffers=tuple(buffers))
    (fault,) = check_program(replace(program, devices=(changed, program.device("d1"))))
    assert "wait for each other in a circle" in fault


def replicated_program(*, reads_both: bool) -> Program:
    """Return a stage in two replicas whose reader knows one or both."""
    build = ProgramBuilder(1, in_flight=2, routes=(2,))
    piece = build.feed()
    parts = [build.compute("d0", [[piece]], "t", when=((0, choice),)) for choice in (0, 1)]
    build.deliver([parts if reads_both else parts[:1]])
    return build.build()


def test_read_must_be_covered_on_every_route() -> None:
    """A reader that knows only one replica lacks its input when the other is chosen."""
    assert check_program(replicated_program(reads_both=True)) == []
    faults = check_program(replicated_program(reads_both=False))
    assert any("on route {0: 1}, which is not on the device" in fault for fault in faults)


def test_leaks_name_every_stream_off_the_device() -> None:
    """The input is sent once, and once by its partial sums; other tensors do not count."""
    program = good_program()
    (leak,) = find_leaks(program, "input", "d0")
    assert "'input' [0:4] from 'd0' to 'd1'" in leak
    assert find_leaks(program, "b", "d0") == []
    partial = edit_stream(program, tensor="secret#1")
    assert len(find_leaks(partial, "secret", "d0")) == 1
