"""Which streams go without credits."""

from __future__ import annotations

import msgspec
import pytest
from tests.program_builder import ProgramBuilder, chain

from partita.program import Program
from partita.program.check import check_program
from partita.program.credits import drop_needless_credits


def credits_of(program: Program) -> list[int]:
    """Return the credits of the program's streams, in order."""
    return [stream.credit for stream in drop_needless_credits(program).streams]


@pytest.mark.parametrize(("in_flight", "credit", "expected"), [(1, 1, 0), (3, 3, 0), (3, 2, 2)])
def test_admission_bounds_streams_with_all_credits(
    in_flight: int, credit: int, expected: int
) -> None:
    """A chain's streams need credits only where they have fewer than requests may be in flight."""
    program = chain(3, 3, in_flight=in_flight, credit=credit)
    assert credits_of(program) == [expected] * 3
    assert check_program(drop_needless_credits(program)) == []


def test_what_nobody_waits_for_keeps_its_credits() -> None:
    """A piece of which one use leads to no output may be held longer than its request."""
    build = ProgramBuilder(2)
    fed = build.feed()
    there = build.send(fed, "d1", credit=1)
    build.compute("d1", [[there]], "unused")
    back = build.send(build.compute("d1", [[there]], "used"), "d0", credit=1)
    build.deliver([[back]])
    program = build.build()
    assert credits_of(program) == [1, 0]
    wrong = replace_credit(program, 0)
    assert any("may be unread" in fault for fault in check_program(wrong))


def replace_credit(program: Program, credit: int) -> Program:
    """Return the program with the same credit for all streams."""
    streams = tuple(msgspec.structs.replace(s, credit=credit) for s in program.streams)
    return msgspec.structs.replace(program, streams=streams)
