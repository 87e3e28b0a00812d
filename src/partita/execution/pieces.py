"""Gathering of arguments and encoding of payloads, planned once per program."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from partita.program import Buffer, DeviceProgram, Input, Stream, TensorSpec
from partita.regions import Array, Grid, Region, decode_array, encode_array

Slices = tuple[slice, ...]


class BufferSlice(msgspec.Struct, frozen=True):
    """The part of one buffer that goes into an argument; None means the whole of it."""

    buffer: int
    source: Slices | None
    target: Slices | None


class Gather(msgspec.Struct, frozen=True):
    """The assembly of one argument; later parts win where parts overlap."""

    shape: tuple[int, ...]
    dtype: str
    parts: tuple[BufferSlice, ...]

    def collect(self, held: Mapping[int, Array]) -> Array:
        """The argument, contiguous; a buffer that is exactly the argument is not copied.

        Args:
            held: The request's arrays by buffer id. Buffers that the request's route leaves out
                are missing from it.
        """
        parts = [part for part in self.parts if part.buffer in held]
        if len(parts) == 1 and parts[0].target is None:
            array = held[parts[0].buffer]
            if parts[0].source is not None:
                array = array[parts[0].source]
            return as_argument(array)
        whole = np.empty(self.shape, self.dtype)
        for part in parts:
            array = held[part.buffer]
            whole[part.target or ...] = array if part.source is None else array[part.source]
        return whole


def as_argument(array: Array) -> Array:
    """``array``, contiguous and aligned; copied only where it is not."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, requirements=["C", "A"])


def plan_gather(argument: Input, buffers: Mapping[int, Buffer]) -> Gather:
    """The assembly of ``argument`` from the device's ``buffers``."""
    parts = []
    # Reversed, because of overlapping buffers the first one counts.
    for number in reversed(argument.buffers):
        box = buffers[number].box
        common = box.intersect(argument.box)
        if common.is_empty and not argument.box.is_empty:
            continue
        source = None if common == box else common.relative_to(box).slices()
        whole = common == argument.box
        target = None if whole else common.relative_to(argument.box).slices()
        parts.append(BufferSlice(number, source, target))
    first = buffers[argument.buffers[0]] if argument.buffers else None
    dtype = first.dtype if first is not None else "float32"
    return Gather(argument.box.shape, dtype, tuple(parts))


def index_buffers(program: DeviceProgram) -> dict[int, Buffer]:
    """The device's buffers by id."""
    return {buffer.id: buffer for buffer in program.buffers}


class Codec(msgspec.Struct, frozen=True):
    """Encoding and decoding of one stream's pieces."""

    shape: tuple[int, ...]
    dtype: str
    wire: str
    source: Slices | None
    grid: Grid | None = None

    def encode(self, array: Array) -> bytes | memoryview:
        """The payload for the piece that lies in ``array``, the buffer read."""
        piece = array if self.source is None else array[self.source]
        return encode_array(piece, self.wire, self.grid)

    def decode(self, payload: bytes | bytearray | memoryview) -> Array:
        """The piece in ``payload``, viewed where the format allows.

        Raises:
            ValueError: The length does not fit, or the payload is damaged.
        """
        return decode_array(payload, self.shape, self.dtype, self.wire, self.grid)


def plan_codec(stream: Stream, held: Region | None = None) -> Codec:
    """Encoding and decoding of the pieces of ``stream``.

    Args:
        held: On the sending side, the box of the buffer that is read.
    """
    source = None
    if held is not None and held != stream.box:
        source = stream.box.relative_to(held).slices()
    return Codec(stream.box.shape, stream.dtype, stream.wire, source, stream.grid)


def decode_feed(payload: memoryview, tensor: TensorSpec) -> Array:
    """A model input, as the leader sent it."""
    return decode_array(payload, tensor.shape, tensor.dtype, "raw")
