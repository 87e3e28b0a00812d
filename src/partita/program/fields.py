"""Whether the fields of a program mean anything, apart from how its steps hang together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from partita.program.routes import MAX_SHARES
from partita.program.steps import DTYPE_BYTES, Compute, Deliver, Program
from partita.program.ways import MAX_WAYS
from partita.regions import Region

#: A piece beyond this cannot travel, a tensor beyond it fits no device that a plan is for.
MAX_TENSOR_BYTES = 2**40
MAX_IN_FLIGHT = 2**20
_SHAPELESS = "a box {} that begins before 0 or after its end"


def check_fields(program: Program) -> Iterator[str]:
    """Every field that no program can have, one sentence each."""
    for kind, specs in (("input", program.inputs), ("output", program.outputs)):
        for spec in specs:
            yield from _check_tensor(f"{kind} {spec.name!r}", spec.dtype, spec.shape)
    for stream in program.streams:
        name = f"stream {stream.id} ({stream.tensor!r})"
        yield from _check_box(name, stream.dtype, stream.box)
    for part in program.devices:
        for buffer in part.buffers:
            yield from _check_box(
                f"buffer {buffer.id} ({buffer.tensor!r})", buffer.dtype, buffer.box
            )
        for step in part.steps:
            for read in step.reads if isinstance(step, Compute | Deliver) else ():
                if not _is_box(read.box):
                    yield f"step {step.id} reads {_SHAPELESS.format(read.box)}"
    if max(program.routes, default=0) > MAX_WAYS:
        yield f"routes {program.routes!s:.80} have a stage of more than {MAX_WAYS} replicas"
    yield from _check_shares(program)
    if program.in_flight > MAX_IN_FLIGHT:
        yield f"in_flight {program.in_flight} is more than {MAX_IN_FLIGHT}"


def _check_shares(program: Program) -> Iterator[str]:
    if program.shares and len(program.shares) != len(program.routes):
        count = len(program.routes)
        yield f"shares are given for {len(program.shares)} of {count} replicated stages"
    for shares, count in zip(program.shares, program.routes, strict=False):
        if shares and (len(shares) != count or min(shares) < 1 or sum(shares) > MAX_SHARES):
            yield (
                f"shares {shares!s:.80} need {count} whole numbers of at least 1 that add up to"
                f" {MAX_SHARES} at most"
            )


def _is_box(box: Region) -> bool:
    return all(0 <= start <= stop for start, stop in box.bounds)


def _check_box(name: str, dtype: str, box: Region) -> Iterator[str]:
    if not _is_box(box):
        yield f"{name} has {_SHAPELESS.format(box)}"
        return
    yield from _check_tensor(name, dtype, box.shape)


def _check_tensor(name: str, dtype: str, shape: Sequence[int]) -> Iterator[str]:
    if dtype not in DTYPE_BYTES:
        yield f"{name} is of type {dtype!r:.80}; allowed: {', '.join(DTYPE_BYTES)}"
    elif min(shape, default=0) < 0:
        yield f"{name} has a shape {tuple(shape)} with a negative extent"
    elif prod(shape) * DTYPE_BYTES[dtype] > MAX_TENSOR_BYTES:
        yield f"{name} has a shape {tuple(shape)} of more than {MAX_TENSOR_BYTES} bytes"
