"""Decoders of messages, each made by one thread.

msgspec crashes the process where two threads decode the first message of a kind at the same time:
one reads what the other has half made of its type. A worker answers several calls at a time.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}
_making = threading.Lock()
make_decoder = msgspec.msgpack.Decoder


def find_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """The decoder of one kind of message."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _making:
            decoder = _decoders.setdefault(kind, make_decoder(kind))
    return decoder
