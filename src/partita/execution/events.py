"""What the state machine hears and what it answers.

Structs and not named tuples: two kinds with the same numbers must not be equal.
"""

from __future__ import annotations

import msgspec

Route = tuple[int, ...]


class Fed(msgspec.Struct, frozen=True):
    """The requester's inputs of a request are there (only on the requester)."""

    request: int
    route: Route


class Arrived(msgspec.Struct, frozen=True):
    """A piece of a stream has arrived, still encoded."""

    stream: int
    request: int
    route: Route


class Finished(msgspec.Struct, frozen=True):
    """A step that was started is done."""

    step: int
    request: int


class Credited(msgspec.Struct, frozen=True):
    """The receiver of a stream has read one piece."""

    stream: int


class Loaded(msgspec.Struct, frozen=True):
    """A ``Load`` step is done."""

    step: int


Event = Fed | Arrived | Finished | Credited | Loaded


class Start(msgspec.Struct, frozen=True):
    """Begin a step of a request; answer with ``Finished`` when it is done."""

    step: int
    request: int


class StartLoad(msgspec.Struct, frozen=True):
    """Begin a ``Load`` step; answer with ``Loaded``."""

    step: int


class GiveCredit(msgspec.Struct, frozen=True):
    """Tell the sender of a stream that one more piece may come."""

    stream: int


class Free(msgspec.Struct, frozen=True):
    """Drop a buffer of a request: its last reader is done."""

    buffer: int
    request: int


class Delivered(msgspec.Struct, frozen=True):
    """A request is complete on this device: its ``Deliver`` step is done."""

    request: int


Action = Start | StartLoad | GiveCredit | Free | Delivered
