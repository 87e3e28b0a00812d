"""Decoders of messages that several threads want first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from partita.worker import decoders


class Message(msgspec.Struct):
    """A kind that nobody has decoded yet."""

    number: int


def test_one_thread_makes_a_decoder_and_all_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that are half made would be read otherwise, which ends the process."""
    inside, most = [0], [0]
    begin = threading.Barrier(4)

    def make(kind: type) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)  # long enough for the others to come in, if they can
        inside[0] -= 1
        return msgspec.msgpack.Decoder(kind)

    def find(_: int) -> Any:
        begin.wait()
        return decoders.find_decoder(Message)

    monkeypatch.setattr(decoders, "make_decoder", make)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(find, range(4)))
    assert most == [1]
    assert all(each is found[0] for each in found)
    assert found[0].decode(msgspec.msgpack.encode(Message(3))) == Message(3)
