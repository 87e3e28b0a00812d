"""What is wrong with a compiled program, whoever made it; a good one has no faults.

Compilation checks its own work with it, and a leader checks a program read from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf

import msgspec

from partita.naming import is_name
from partita.program.credits import streams_read_before_answer
from partita.program.fields import check_fields
from partita.program.steps import (
    Buffer,
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    Input,
    Load,
    Program,
    Receive,
    Send,
    Step,
    Stream,
    buffers_read,
    buffers_written,
)
from partita.program.ways import MAX_WAYS, TooManyWays, When, find_gap
from partita.regions import PICTURE_AXES, Region, read_format, suits, wire_bytes

_TOO_MANY = f"more than {MAX_WAYS} ways through replicated stages"


def check_program(program: Program) -> list[str]:
    """Every fault of ``program``, one sentence each; none when it can run.

    A program without faults feeds every input, delivers every output whole, reads only what is
    there on every route, and cannot deadlock.
    """
    faults = list(check_fields(program)) or [
        *_check_ids(program),
        *_check_choices(program),
        *_check_streams(program),
    ]
    if program.requester not in {part.device for part in program.devices}:
        faults.append(f"requester {program.requester!r} has no steps")
    if faults:
        # The rest looks things up by id.
        return faults
    for part in program.devices:
        faults += _DeviceCheck(program, part).faults()
    faults += _check_ends(program)
    return faults or _check_order(program)


def check_part(program: Program, device: str) -> list[str]:
    """Every fault of one device's part of a program, one sentence each; the others' may be absent.

    A part without faults runs: it names only what it has, and its streams are what they say. What
    it cannot show is whether the others' steps fit.
    """
    parts = [part for part in program.devices if part.device == device]
    if len(parts) != 1:
        return [f"{device!r} has {len(parts)} parts, 1 is needed"]
    own = msgspec.structs.replace(program, devices=tuple(parts))
    faults = list(check_fields(own)) or [*_check_ids(own), *_check_choices(own)]
    if not faults:
        faults = list(_check_own_streams(own, device))
    if faults:
        return faults
    faults = list(_DeviceCheck(own, parts[0]).faults())
    if device == program.requester:
        return [*faults, *_check_ends(own)]
    for step in parts[0].steps:
        if isinstance(step, Feed | Deliver):
            faults.append(f"step {step.id} feeds or delivers on {device!r}, not the requester")
    return faults


def find_leaks(program: Program, tensor: str, device: str) -> list[str]:
    """How ``tensor`` leaves ``device``, one sentence per stream; none when it stays there.

    Partial sums of the tensor count as the tensor.
    """
    return [
        f"stream {stream.id} carries {stream.tensor!r} {stream.box} from {device!r} "
        f"to {stream.target!r}"
        for stream in program.streams
        if stream.source == device and stream.tensor.split("#")[0] == tensor
    ]


def _check_ids(program: Program) -> Iterator[str]:
    kinds: dict[str, Iterable[int | str]] = {
        "step": [step.id for part in program.devices for step in part.steps],
        "buffer": [buffer.id for part in program.devices for buffer in part.buffers],
        "stream": [stream.id for stream in program.streams],
        "device": [part.device for part in program.devices],
        "input": [spec.name for spec in program.inputs],
        "output": [spec.name for spec in program.outputs],
    }
    for kind, ids in kinds.items():
        for ident, count in Counter(ids).items():
            if count > 1:
                yield f"{kind} id {ident!r} is used {count} times"
    if program.in_flight < 1 or any(count < 1 for count in program.routes):
        yield f"in_flight {program.in_flight} and routes {program.routes} must be at least 1"


def _check_choices(program: Program) -> Iterator[str]:
    routes = program.routes
    for part in program.devices:
        for step in part.steps:
            for group, alternative in getattr(step, "when", ()):
                if not (0 <= group < len(routes) and 0 <= alternative < routes[group]):
                    choice = (group, alternative)
                    yield f"step {step.id} asks for choice {choice}, the routes are {routes}"


def _check_streams(program: Program) -> Iterator[str]:
    ends: dict[int, dict[type, list[tuple[str, Send | Receive]]]] = {
        stream.id: {Send: [], Receive: []} for stream in program.streams
    }
    for part in program.devices:
        for step in part.steps:
            if isinstance(step, Send | Receive):
                if step.stream not in ends:
                    yield f"step {step.id} on {part.device!r} uses unknown stream {step.stream}"
                else:
                    ends[step.stream][type(step)].append((part.device, step))
    settled = streams_read_before_answer(program)
    for stream in program.streams:
        name = f"stream {stream.id} ({stream.tensor!r})"
        for kind, device in ((Send, stream.source), (Receive, stream.target)):
            there = ends[stream.id][kind]
            if [where for where, _ in there] != [device]:
                where = [where for where, _ in there]
                yield f"{name} needs one {kind.__name__} on {device!r}, has them on {where}"
            for _, step in there:
                if sorted(step.when) != sorted(stream.when):
                    yield f"{name} is used when {stream.when}, step {step.id} when {step.when}"
        yield from _check_stream(program, stream, name)
        if stream.credit == 0 and stream.id not in settled:
            yield f"{name} has no credit, but may be unread when its request is answered"


def _check_own_streams(program: Program, device: str) -> Iterator[str]:
    """Check the streams of one device, and that each has one step there."""
    steps: Counter[tuple[type, int]] = Counter()
    streams = {stream.id: stream for stream in program.streams}
    for step in program.devices[0].steps:
        if not isinstance(step, Send | Receive):
            continue
        stream = streams.get(step.stream)
        if stream is None:
            yield f"step {step.id} on {device!r} uses unknown stream {step.stream}"
        elif sorted(step.when) != sorted(stream.when):
            yield f"stream {stream.id} is used when {stream.when}, step {step.id} when {step.when}"
        steps[type(step), step.stream] += 1
    for stream in program.streams:
        name = f"stream {stream.id} ({stream.tensor!r})"
        for kind, end in ((Send, stream.source), (Receive, stream.target)):
            if steps[kind, stream.id] != (end == device):
                yield (
                    f"{name} from {stream.source!r} to {stream.target!r} has "
                    f"{steps[kind, stream.id]} {kind.__name__} steps on {device!r}"
                )
        for end in (stream.source, stream.target):
            if not is_name(end):
                yield f"{name} has an end {end!r:.80}, which is no name of a device"
        if device in (stream.source, stream.target):
            yield from _check_stream(program, stream, name)


def _check_stream(program: Program, stream: Stream, name: str) -> Iterator[str]:
    if stream.source == stream.target:
        yield f"{name} goes from {stream.source!r} to itself"
    if stream.credit < 0:
        yield f"{name} has credit {stream.credit}, at least 0 is needed"
    if program.routes and 0 < stream.credit < program.in_flight:
        yield f"{name} has credit {stream.credit}, replicas need {program.in_flight}"
    try:
        form = read_format(stream.wire)
    except ValueError:
        yield f"{name} has unknown wire format {stream.wire!r:.80}"
        return
    if form.has_codes != _has_grid(stream, form.base):
        yield f"{name} travels as {stream.wire} with grid {stream.grid}, which does not fit"
    elif not suits(stream.wire, stream.box.shape):
        yield f"{name} travels as {stream.wire}, allowed: {PICTURE_AXES}"
    elif stream.wire_bytes != wire_bytes(stream.box.shape, stream.dtype, stream.wire):
        yield f"{name} counts {stream.wire_bytes} bytes, its box takes another number"


def _has_grid(stream: Stream, base: str) -> bool:
    grid = stream.grid
    if grid is None or grid.wire != base or stream.dtype != "float32":
        return False
    return 0 < grid.scale < inf and abs(grid.zero) < 2**15


class _DeviceCheck:
    """Checks of one device's steps against its own buffers."""

    def __init__(self, program: Program, part: DeviceProgram) -> None:
        self.program = program
        self.part = part
        self.buffers: dict[int, Buffer] = {buffer.id: buffer for buffer in part.buffers}
        self.streams = {stream.id: stream for stream in program.streams}
        self.loaded = {step.fragment for step in part.steps if isinstance(step, Load)}
        self.written: dict[int, When] = {}

    def faults(self) -> Iterator[str]:
        """Yield the faults of the device, in program order."""
        readers: Counter[int] = Counter()
        for step in self.part.steps:
            name = f"step {step.id} ({type(step).__name__.lower()}) on {self.part.device!r}"
            unknown = {*buffers_read(step), *buffers_written(step)} - self.buffers.keys()
            if unknown:
                yield f"{name} uses buffers {sorted(unknown)}, which are not on the device"
                continue
            faults = list(self._check_step(step))
            yield from (f"{name} {fault}" for fault in faults)
            readers.update(set(buffers_read(step)))
            for buffer in buffers_written(step):
                if buffer in self.written:
                    yield f"{name} writes buffer {buffer}, which another step writes"
                self.written[buffer] = getattr(step, "when", ())
        for piece in self.part.buffers:
            if piece.id not in self.written:
                yield f"buffer {piece.id} on {self.part.device!r} is written by no step"
            if readers[piece.id] != piece.readers:
                yield (
                    f"buffer {piece.id} on {self.part.device!r} counts {piece.readers} readers, "
                    f"has {readers[piece.id]}"
                )

    def _check_step(self, step: Step) -> Iterator[str]:
        when: When = getattr(step, "when", ())
        early = [buffer for buffer in buffers_read(step) if buffer not in self.written]
        if early:
            yield f"reads buffers {early} before they are written"
            return
        if isinstance(step, Load | Compute) and not (
            0 <= step.fragment < len(self.program.fragments)
        ):
            yield f"names fragment {step.fragment} of {len(self.program.fragments)}"
        if isinstance(step, Compute) and step.fragment not in self.loaded:
            yield f"runs fragment {step.fragment}, which the device does not load"
        if isinstance(step, Compute | Deliver):
            if not step.reads:
                yield "reads nothing"
            for read in step.reads:
                yield from self._check_read(read, when)
        elif isinstance(step, Send | Receive):
            yield from self._check_piece(step)

    def _check_read(self, read: Input, when: When) -> Iterator[str]:
        if len(set(read.buffers)) != len(read.buffers):
            yield f"names a buffer of {read.tensor!r} twice"
        for buffer in read.buffers:
            if self.buffers[buffer].tensor != read.tensor:
                yield f"reads {read.tensor!r} from a buffer of {self.buffers[buffer].tensor!r}"
            if len(self.buffers[buffer].box.bounds) != len(read.box.bounds):
                yield f"reads {read.box} of {read.tensor!r} from a buffer of another rank"
                return
        pieces = [(self.written[buffer], self.buffers[buffer].box) for buffer in read.buffers]
        try:
            missing = find_gap(read.box, pieces, dict(when), self.program.routes)
        except TooManyWays:
            yield f"reads {read.tensor!r} on {_TOO_MANY}"
            return
        if missing is not None:
            gap, chosen = missing
            route = f" on route {chosen}" if chosen else ""
            yield f"reads {gap} of {read.tensor!r}{route}, which is not on the device"

    def _check_piece(self, step: Send | Receive) -> Iterator[str]:
        stream = self.streams[step.stream]
        place = step.read if isinstance(step, Send) else step.write
        buffer = self.buffers[place]
        if (buffer.tensor, buffer.dtype) != (stream.tensor, stream.dtype):
            yield (
                f"has a buffer of {buffer.tensor!r} {buffer.dtype} for a stream of "
                f"{stream.tensor!r} {stream.dtype}"
            )
        if isinstance(step, Receive):
            if buffer.box != stream.box:
                yield f"writes {stream.box} into a buffer of {buffer.box}"
            return
        if len(buffer.box.bounds) != len(stream.box.bounds) or not buffer.box.contains(stream.box):
            yield f"sends {stream.box} out of a buffer of {buffer.box}"
        filled = [(self.written[place], stream.box)]
        try:
            missing = find_gap(stream.box, filled, dict(step.when), self.program.routes)
        except TooManyWays:
            yield f"sends buffer {place} on {_TOO_MANY}"
            return
        if missing is not None:
            yield f"sends buffer {place} on route {missing[1]}, which does not fill it"


def _check_ends(program: Program) -> Iterator[str]:
    """Check that the requester feeds every input whole and delivers every output whole."""
    fed: dict[str, list[Region]] = {spec.name: [] for spec in program.inputs}
    delivers: list[Deliver] = []
    for part in program.devices:
        boxes = {buffer.id: buffer.box for buffer in part.buffers}
        for step in part.steps:
            if not isinstance(step, Feed | Deliver):
                continue
            if part.device != program.requester:
                yield f"step {step.id} feeds or delivers on {part.device!r}, not the requester"
            elif isinstance(step, Deliver):
                delivers.append(step)
            elif step.tensor not in fed:
                yield f"step {step.id} feeds {step.tensor!r}, which is no input of the model"
            elif step.write in boxes:
                fed[step.tensor].append(boxes[step.write])
    for spec in program.inputs:
        if fed[spec.name] != [Region.full(spec.shape)]:
            yield f"input {spec.name!r} is fed as {[str(box) for box in fed[spec.name]]}, not whole"
    if len(delivers) != 1:
        yield f"the requester has {len(delivers)} deliver steps, 1 is needed"
        return
    got = [(read.tensor, read.box) for read in delivers[0].reads]
    wanted = [(spec.name, Region.full(spec.shape)) for spec in program.outputs]
    if got != wanted:
        shown = ", ".join(f"{name} {box}" for name, box in got)
        yield f"deliver step {delivers[0].id} gives {shown}; every output must be there, whole"


def _check_order(program: Program) -> list[str]:
    """Check that no step waits for itself over devices; each device's own order is checked."""
    after: dict[int, list[int]] = {}
    waits: Counter[int] = Counter()
    sent: dict[int, int] = {}
    for part in program.devices:
        sent |= {step.stream: step.id for step in part.steps if isinstance(step, Send)}
    for part in program.devices:
        writer = {b: step.id for step in part.steps for b in buffers_written(step)}
        for step in part.steps:
            before = {writer[buffer] for buffer in buffers_read(step)}
            if isinstance(step, Receive):
                before = {sent[step.stream]}
            waits[step.id] = len(before)
            for other in before:
                after.setdefault(other, []).append(step.id)
    ready = [ident for ident, count in waits.items() if not count]
    for ident in ready:
        for other in after.get(ident, ()):
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    stuck = sorted(ident for ident, count in waits.items() if count)
    return [f"steps {stuck} wait for each other in a circle"] if stuck else []
