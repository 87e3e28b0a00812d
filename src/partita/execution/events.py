"""What the state machine hears and what it answers."""

from __future__ import annotations

from typing import NamedTuple

Route = tuple[int, ...]


class Fed(NamedTuple):
    """The requester's inputs of a request are there (only on the requester)."""

    request: int
    route: Route


class Arrived(NamedTuple):
    """A piece of a stream has arrived, still encoded."""

    stream: int
    request: int
    route: Route


class Finished(NamedTuple):
    """A step that was started is done."""

    step: int
    request: int


class Credited(NamedTuple):
    """The receiver of a stream has read one piece."""

    stream: int


class Loaded(NamedTuple):
    """A ``Load`` step is done."""

    step: int


Event = Fed | Arrived | Finished | Credited | Loaded


class Start(NamedTuple):
    """Begin a step of a request; answer with ``Finished`` when it is done."""

    step: int
    request: int


class StartLoad(NamedTuple):
    """Begin a ``Load`` step; answer with ``Loaded``."""

    step: int


class GiveCredit(NamedTuple):
    """Tell the sender of a stream that one more piece may come."""

    stream: int


class Free(NamedTuple):
    """Drop a buffer of a request: its last reader is done."""

    buffer: int
    request: int


class Delivered(NamedTuple):
    """A request is complete on this device: its ``Deliver`` step is done."""

    request: int


Action = Start | StartLoad | GiveCredit | Free | Delivered
