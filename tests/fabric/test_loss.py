"""Real losses: processes that die or hang, puts that vanish."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from partita.errors import RunError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.lab.ports import free_addresses

CHILD = """
import sys, time
from partita.fabric import ZenohEndpoint, ZenohOptions
end = ZenohEndpoint(ZenohOptions("b", listen=(sys.argv[2],), connect=(sys.argv[1],)))
end.on_data(lambda source, header, payload: None)
end.serve(lambda caller, method, body: time.sleep(60) or b"")
if sys.argv[3] == "stuck":
    end.on_notify(lambda source, body: time.sleep(60))
end.announce(b"")
print("ready", flush=True)
time.sleep(120)
"""


class Watcher:
    """Waits for a peer's coming or going."""

    def __init__(self, endpoint: ZenohEndpoint) -> None:
        self.seen: list[tuple[str, bool]] = []
        self._changed = threading.Condition()
        endpoint.watch(self._add)

    def _add(self, name: str, alive: bool) -> None:
        with self._changed:
            self.seen.append((name, alive))
            self._changed.notify_all()

    def wait(self, *events: tuple[str, bool]) -> None:
        """Return when exactly ``events`` were seen."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.seen == list(events), 20), self.seen


@contextmanager
def watched_child(mode: str) -> Iterator[tuple[ZenohEndpoint, Watcher, subprocess.Popen[bytes]]]:
    """Yield an endpoint that watches another in a process of its own."""
    own, other = free_addresses(2)
    end = ZenohEndpoint(ZenohOptions("a", listen=(own,), heartbeat_s=0.2))
    command = [sys.executable, "-c", CHILD, own, other, mode]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        watcher = Watcher(end)
        end.announce(b"")
        watcher.wait(("b", True))
        yield end, watcher, child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
        end.close()


@pytest.mark.slow
def test_killed_process_is_seen_and_its_callers_are_freed() -> None:
    """After SIGKILL the watcher is told at once and a waiting call ends before its timeout."""
    with watched_child("plain") as (end, watcher, child):
        errors: list[Any] = []

        def ask() -> None:
            with pytest.raises(RunError, match="was lost while it answered") as caught:
                end.call("b", "sleep", b"", 60)
            errors.append(caught.value.device)

        caller = threading.Thread(target=ask)
        caller.start()
        time.sleep(0.3)
        child.send_signal(signal.SIGKILL)
        started_s = time.monotonic()
        watcher.wait(("b", True), ("b", False))
        caller.join(10)
        assert errors == ["b"]
        assert time.monotonic() - started_s < 3
        with pytest.raises(RunError, match="cannot be reached"):
            end.call("b", "hello", b"", 0.1)


@pytest.mark.slow
def test_stopped_process_is_seen_and_may_come_back() -> None:
    """A process that is stopped goes; when it goes on, it is there again."""
    with watched_child("plain") as (_, watcher, child):
        child.send_signal(signal.SIGSTOP)
        watcher.wait(("b", True), ("b", False))
        child.send_signal(signal.SIGCONT)
        watcher.wait(("b", True), ("b", False), ("b", True))


@pytest.mark.slow
def test_process_stuck_in_python_is_seen() -> None:
    """A worker whose own loop hangs looks dead, though its connection lives."""
    with watched_child("stuck") as (end, watcher, _):
        end.notify("b", b"hang")
        watcher.wait(("b", True), ("b", False))


@pytest.mark.slow
def test_process_that_forgets_to_close_still_ends() -> None:
    """A process whose main thread ends, or fails, leaves no thread that keeps it alive."""
    own, other = free_addresses(2)
    for end in ("", "raise SystemExit(3)"):
        code = CHILD.replace("time.sleep(120)", end)
        child = subprocess.run(
            [sys.executable, "-c", code, own, other, "plain"], timeout=30, capture_output=True
        )
        assert child.returncode == (3 if end else 0), child.stderr


@pytest.mark.slow
def test_vanished_put_is_sent_again() -> None:
    """Messages that the transport loses arrive all the same, in order, each once."""
    own, other = free_addresses(2)
    a = ZenohEndpoint(ZenohOptions("a", listen=(own,), local_sockets=False))
    b = ZenohEndpoint(ZenohOptions("b", listen=(other,), connect=(own,), local_sockets=False))
    got: list[bytes] = []
    done = threading.Event()

    def receive(source: str, header: bytes, payload: memoryview) -> None:
        got.append(header)
        if len(got) == 20:
            done.set()

    b.on_data(receive)
    a.announce(b"")
    b.announce(b"")
    try:
        a.send("b", b"0", b"")
        channel = a._plane._channels["b"]
        channel.publisher = lossy = Lossy(channel.publisher, {3, 4, 11, 18})
        for n in range(1, 20):
            a.send("b", b"%d" % n, bytes(10))
        assert done.wait(20)
        assert got == [b"%d" % n for n in range(20)]
        assert lossy.lost == 4
    finally:
        a.close()
        b.close()


@pytest.mark.slow
def test_link_that_never_acknowledges_is_reported() -> None:
    """When everything sent is lost the sender is told, with the device's name."""
    own, other = free_addresses(2)
    options = ZenohOptions("a", listen=(own,), local_sockets=False, patience_s=1.0)
    a = ZenohEndpoint(options)
    b = ZenohEndpoint(replace(options, name="b", listen=(other,), connect=(own,)))
    errors: list[RunError] = []
    reported = threading.Event()
    a.on_error(lambda error: (errors.append(error), reported.set()))
    b.on_data(lambda source, header, payload: None)
    a.announce(b"")
    b.announce(b"")
    try:
        a.send("b", b"0", b"")
        channel = a._plane._channels["b"]
        channel.publisher = Lossy(channel.publisher, set(range(10_000)))
        a.send("b", b"1", b"")
        assert reported.wait(15)
        assert "lost 1 pieces" in errors[0].message
        assert errors[0].device == "b"
    finally:
        a.close()
        b.close()


class Lossy:
    """A publisher that loses the puts of the given numbers."""

    def __init__(self, inner: Any, lose: set[int]) -> None:
        self._inner = inner
        self._lose = lose
        self._count = 0
        self.lost = 0

    @property
    def matching_status(self) -> Any:
        """Pass on the real publisher's."""
        return self._inner.matching_status

    def put(self, data: bytes, attachment: bytes) -> None:
        """Put, or lose."""
        self._count += 1
        if self._count in self._lose:
            self.lost += 1
        else:
            self._inner.put(data, attachment=attachment)


def test_who_waits_for_a_late_worker_keeps_the_others() -> None:
    """An endpoint is answered once it is announced; until then nobody's silence counts."""
    _, other = free_addresses(2)
    with (
        closing(ZenohEndpoint(ZenohOptions("b", listen=(other,)))) as worker,
        closing(ZenohEndpoint(ZenohOptions("a", connect=(other,), heartbeat_s=0.05))) as end,
    ):
        worker.announce(b"")
        watcher = Watcher(end)
        watcher.wait(("b", True))
        time.sleep(0.5)  # ten heartbeats; four without an answer are silence
        end.announce(b"")
        time.sleep(0.5)
        watcher.wait(("b", True))
        assert end.peers() == {"b"}
