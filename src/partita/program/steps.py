"""The plan compiled: what each device does, step by step, with exact boxes, peers and streams.

A device holds **buffers**; a buffer is one piece of one tensor for one request. ``Feed``,
``Receive`` and ``Compute`` write buffers, ``Compute``, ``Send`` and ``Deliver`` read them, and the
last reader frees them. A **stream** carries one piece from one ``Send`` on one device to one
``Receive`` on another, once per request.
"""

from __future__ import annotations

from math import prod

import msgspec

from partita.errors import ModelError
from partita.regions import Grid, Region

#: One chosen alternative of one replicated stage: (index of the stage's route group, alternative).
Choice = tuple[int, int]


class TensorSpec(msgspec.Struct, frozen=True):
    """A named tensor: its whole shape in elements and its NumPy type name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> str:
        """The type as ONNX Runtime's sessions name it, such as ``tensor(float)``."""
        names = {"float32": "float", "float64": "double", "object": "string"}
        return f"tensor({names.get(self.dtype, self.dtype)})"

    @property
    def datatype(self) -> str:
        """The type as the Open Inference Protocol names it, such as ``FP32``."""
        return self.dtype.upper().replace("FLOAT", "FP")

    @property
    def size_bytes(self) -> int:
        """Memory of the whole tensor; 0 where an extent depends on the data."""
        return prod(max(0, extent) for extent in self.shape) * type_bytes(self.dtype)


class Buffer(msgspec.Struct, frozen=True):
    """One piece of a tensor on one device; ``id`` is unique in the program.

    Attributes:
        tensor: The tensor's name; partial sums carry ``name#index``.
        box: The piece, in the tensor's coordinates.
        readers: Number of steps on this device that read it, each once per request.
    """

    id: int
    tensor: str
    box: Region
    dtype: str
    readers: int

    @property
    def datatype(self) -> str:
        """The type as the Open Inference Protocol names it, such as ``FP32``."""
        return self.dtype.upper().replace("FLOAT", "FP")

    @property
    def size_bytes(self) -> int:
        """Memory that the piece takes."""
        return self.box.size * type_bytes(self.dtype)


DTYPE_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


def type_bytes(dtype: str) -> int:
    """The bytes of one element.

    Raises:
        ModelError: No tensor may be of this type.
    """
    try:
        return DTYPE_BYTES[dtype]
    except KeyError:
        allowed = ", ".join(DTYPE_BYTES)
        message = f"Element type '{dtype}' is unknown; allowed: {allowed}."
        raise ModelError(message, subject=dtype) from None


class Input(msgspec.Struct, frozen=True):
    """One argument of a step: a box of a tensor, assembled from buffers on the same device.

    The buffers together cover ``box``; where they overlap the earlier one counts. With replicated
    stages only the buffers that the request's route fills take part.
    """

    tensor: str
    box: Region
    buffers: tuple[int, ...]


class Stream(msgspec.Struct, frozen=True):
    """One piece of one tensor from ``source`` to ``target``, once per request.

    Attributes:
        wire: Wire format of the payload.
        grid: On which a quantised tensor's values lie, where it travels as its codes.
        credit: How many requests' pieces may be under way or unread at the same time; 0 where the
            admission of requests bounds them, see :mod:`partita.program.credits`.
        when: Choices a request's route must hold for the stream to be used; empty means always.
    """

    id: int
    tensor: str
    box: Region
    dtype: str
    source: str
    target: str
    wire: str
    wire_bytes: int
    credit: int
    when: tuple[Choice, ...] = ()
    grid: Grid | None = None


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Make fragment ``fragment`` (an index of the program's table) ready to compute."""

    id: int
    fragment: int


class Feed(msgspec.Struct, frozen=True, tag="feed"):
    """Take one model input from the requester and write it to buffer ``write``."""

    id: int
    tensor: str
    write: int


class Receive(msgspec.Struct, frozen=True, tag="receive"):
    """Decode one piece of stream ``stream`` into buffer ``write``."""

    id: int
    stream: int
    write: int
    when: tuple[Choice, ...] = ()


class Compute(msgspec.Struct, frozen=True, tag="compute"):
    """Run one fragment, all inputs before and all outputs after.

    Attributes:
        label: For people: stage, split axis and what part.
        reads: The fragment's inputs, in its own order.
        writes: Buffers of the fragment's outputs, in its own order.
    """

    id: int
    label: str
    fragment: int
    reads: tuple[Input, ...]
    writes: tuple[int, ...]
    when: tuple[Choice, ...] = ()


class Send(msgspec.Struct, frozen=True, tag="send"):
    """Encode the stream's box out of buffer ``read`` and send it."""

    id: int
    stream: int
    read: int
    when: tuple[Choice, ...] = ()


class Deliver(msgspec.Struct, frozen=True, tag="deliver"):
    """Hand the model's outputs to the requester; the request's last step."""

    id: int
    reads: tuple[Input, ...]


Step = Load | Feed | Receive | Compute | Send | Deliver


class FragmentInfo(msgspec.Struct, frozen=True):
    """What a device must hold to run a fragment.

    Attributes:
        hash: SHA-256 of the fragment's graph; empty before the graph is written.
        blobs: SHA-256 of each weight blob that the graph names.
        graph_bytes: Size of the graph without weights.
        weight_bytes: Size of the weights once loaded; blobs shared by fragments count in each.
        blob_bytes: Size of each blob once loaded; empty before the graph is written.
        stored_bytes: Size of the blobs as they are stored and sent: packed codes are smaller.
    """

    hash: str
    blobs: tuple[str, ...]
    graph_bytes: int
    weight_bytes: int
    blob_bytes: tuple[int, ...] = ()
    stored_bytes: int = 0


class DeviceProgram(msgspec.Struct, frozen=True, omit_defaults=True):
    """All steps and buffers of one device; the order of ``steps`` is the order of the data.

    Attributes:
        port_bytes_per_s: What its port carries in each direction; None where links have no port.
    """

    device: str
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    port_bytes_per_s: float | None = None


class Program(msgspec.Struct, frozen=True):
    """A plan compiled for all its devices.

    Attributes:
        requester: The device that feeds inputs and gets outputs.
        routes: Number of alternatives of each replicated stage.
        in_flight: Most requests admitted at the same time.
        shares: Per replicated stage, the shares of requests that its alternatives take; empty for
            one whose least busy alternative takes the next, or altogether where all are such.
    """

    plan_hash: str
    model_hash: str
    requester: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    streams: tuple[Stream, ...]
    fragments: tuple[FragmentInfo, ...]
    devices: tuple[DeviceProgram, ...]
    routes: tuple[int, ...] = ()
    in_flight: int = 1
    shares: tuple[tuple[int, ...], ...] = ()

    def device(self, name: str) -> DeviceProgram:
        """The steps of device ``name``.

        Raises:
            KeyError: The program does not use that device.
        """
        for part in self.devices:
            if part.device == name:
                return part
        raise KeyError(name)


def is_active(when: tuple[Choice, ...], route: tuple[int, ...]) -> bool:
    """Whether a step or stream takes part in a request with ``route``.

    >>> is_active(((0, 1),), (1,))
    True
    """
    return all(route[group] == alternative for group, alternative in when)


def buffers_read(step: Step) -> tuple[int, ...]:
    """The ids of the buffers that a step reads, each once, in order."""
    if isinstance(step, Send):
        return (step.read,)
    if isinstance(step, Compute | Deliver):
        return tuple(dict.fromkeys(buffer for read in step.reads for buffer in read.buffers))
    return ()


def buffers_written(step: Step) -> tuple[int, ...]:
    """The ids of the buffers that a step writes, in order."""
    if isinstance(step, Compute):
        return step.writes
    return (step.write,) if isinstance(step, Feed | Receive) else ()
