"""Two processes of one name that neither could refuse when it appeared."""

from __future__ import annotations

import threading
import time

import pytest

from partita.errors import NamesakeError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.lab.ports import free_addresses

WAIT_S = 10.0


def _open(name: str, listen: str, *connect: str, lease_s: float = 0.5) -> ZenohEndpoint:
    options = ZenohOptions(name, "barn", (listen,), connect, lease_s=lease_s, heartbeat_s=0.1)
    endpoint = ZenohEndpoint(options)
    endpoint.serve(lambda caller, method, body: listen.encode())
    endpoint.announce(b"")
    return endpoint


def _ask_again_and_again(asker: ZenohEndpoint) -> None:
    for _ in range(100):  # until it hears of both
        asker.call("nano", "ask", b"", 6 * WAIT_S)


def test_calls_name_both_places(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever calls is told where both are, and both say so themselves."""
    there, here, leader = free_addresses(3)
    seen = threading.Event()
    first, second = _open("nano", there), _open("nano", here, there)
    asker = _open("leader", leader, there, here)
    try:
        for endpoint in (first, second):
            endpoint.watch(lambda name, alive: None)
        asker.watch(lambda name, alive: seen.set())
        assert seen.wait(WAIT_S)
        with pytest.raises(NamesakeError) as caught:
            _ask_again_and_again(asker)
        assert f"{there} on host" in caught.value.message
        assert f"{here} on host" in caught.value.message
        for _ in range(100):
            if len(caplog.messages) == 2:
                break
            seen.clear()
            seen.wait(0.1)
        assert all("two processes are called 'nano'" in told for told in caplog.messages)
        assert len(caplog.messages) == 2
    finally:
        for endpoint in (asker, second, first):
            endpoint.close()


def test_two_that_answer_are_named_at_once() -> None:
    """Only of one that does not answer it is unsure whether it is there: its lease decides."""
    there, here, leader = free_addresses(3)
    lease_s = 60.0
    first, second = _open("nano", there, lease_s=lease_s), _open("nano", here, there)
    asker = _open("leader", leader, there, here, lease_s=lease_s)
    began_s = time.monotonic()
    try:
        with pytest.raises(NamesakeError):
            _ask_again_and_again(asker)
        assert time.monotonic() - began_s < lease_s
    finally:
        for endpoint in (asker, second, first):
            endpoint.close()
