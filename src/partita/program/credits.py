"""Which streams need credits: those whose pieces the admission of requests does not bound."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from partita.program.steps import (
    Deliver,
    Program,
    Receive,
    Send,
    Step,
    buffers_read,
    buffers_written,
)


def drop_needless_credits(program: Program) -> Program:
    """The program with credit 0, which means unlimited, where no credit ever runs out.

    A stream may have as many pieces unread as requests are in flight, and all are read before
    their request is answered: then there are never more, and a message per piece is saved.
    """
    read = streams_read_before_answer(program)
    streams = tuple(
        msgspec.structs.replace(stream, credit=0)
        if stream.id in read and stream.credit >= program.in_flight
        else stream
        for stream in program.streams
    )
    return msgspec.structs.replace(program, streams=streams)


def streams_read_before_answer(program: Program) -> frozenset[int]:
    """The ids of streams of which all uses, and uses of what is made of them, end before
    the outputs are delivered.
    """
    return _Uses(program).find()


#: A device and one of its buffers.
_Held = tuple[str, int]


class _Uses:
    """Walks from the delivery back: a step is settled when all that read its buffers are."""

    def __init__(self, program: Program) -> None:
        self._steps: dict[int, tuple[str, Step]] = {}
        self._writer: dict[_Held, int] = {}
        self._readers: defaultdict[_Held, int] = defaultdict(int)
        self._left: dict[int, int] = {}
        self._send: dict[int, int] = {}
        for part in program.devices:
            for step in part.steps:
                self._steps[step.id] = part.device, step
                self._left[step.id] = len(buffers_written(step))
                for buffer in buffers_written(step):
                    self._writer[part.device, buffer] = step.id
                for buffer in buffers_read(step):
                    self._readers[part.device, buffer] += 1
                if isinstance(step, Send):
                    self._send[step.stream] = step.id

    def find(self) -> frozenset[int]:
        """The streams of settled steps."""
        todo = [n for n, (_, step) in self._steps.items() if isinstance(step, Deliver)]
        settled: set[int] = set()
        while todo:
            device, step = self._steps[todo.pop()]
            if isinstance(step, Receive) and step.stream in self._send:
                settled.add(step.stream)
                todo.append(self._send[step.stream])
            for buffer in buffers_read(step):
                held = device, buffer
                self._readers[held] -= 1
                if self._readers[held] == 0 and held in self._writer:
                    writer = self._writer[held]
                    self._left[writer] -= 1
                    if self._left[writer] == 0:
                        todo.append(writer)
        return frozenset(settled)
