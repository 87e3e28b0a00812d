"""Calls that are interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from partita.fabric.base import Caller
from partita.fabric.zenoh_endpoint import ZenohEndpoint
from partita.fabric.zenoh_options import ZenohOptions
from partita.lab.ports import free_addresses

pytestmark = pytest.mark.slow
_WAIT_S = 30.0


@pytest.fixture
def pair() -> Iterator[tuple[ZenohEndpoint, ZenohEndpoint]]:
    """Two endpoints that see each other."""
    address = tuple(free_addresses(1))
    asked = ZenohEndpoint(ZenohOptions("asked", listen=address))
    asks = ZenohEndpoint(ZenohOptions("asks", connect=address))
    there = threading.Event()
    try:
        asks.announce(b"")
        asked.announce(b"")
        asks.watch(lambda name, alive: there.set() if alive else None)
        assert there.wait(_WAIT_S)
        yield asked, asks
    finally:
        asks.close()
        asked.close()


def test_an_interrupt_ends_a_call_that_waits(pair: tuple[ZenohEndpoint, ZenohEndpoint]) -> None:
    """Ctrl-C is not put off until there is an answer, or there is none in time."""
    asked, asks = pair
    over = threading.Event()

    def wait(caller: Caller, method: str, body: bytes) -> bytes:
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(_WAIT_S)
        return b""

    asked.serve(wait)
    try:
        with pytest.raises(KeyboardInterrupt):
            asks.call("asked", "wait", b"", _WAIT_S)
        assert not over.is_set()
        asked.serve(lambda caller, method, body: body)
        assert asks.call("asked", "say", b"again", _WAIT_S) == b"again"
    finally:
        over.set()
