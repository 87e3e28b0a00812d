"""Local sockets, both ends in one process."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partita.fabric import local_socket
from partita.fabric.arena import Arena
from partita.fabric.local_socket import LocalListener, LocalPath, is_same_user

Frame = tuple[bytes, bytes]


class Ears:
    """A listener with what it heard."""

    def __init__(self) -> None:
        self.frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self.faults: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.listener = LocalListener(
            "test", lambda name, head, data: self.frames.put((head, bytes(data))), self.faults.put
        )


@pytest.fixture
def ears() -> Iterator[Ears]:
    """A listener that leaves no thread behind."""
    before = set(threading.enumerate())
    found = Ears()
    yield found
    found.listener.close()
    deadline_s = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not left, f"threads left: {left}"


def test_frames_of_any_size_arrive_whole_and_in_order(ears: Ears) -> None:
    """Sizes around the read-ahead buffer's, and none at all, come byte for byte."""
    path = LocalPath("sender", ears.listener.admit("sender"))
    sizes = [0, 1, 65_535, 65_536, 65_537, 3_000_000, 17, 0, 40_000, 40_000, 40_000]
    sent = [(b"e%d" % n, os.urandom(size)) for n, size in enumerate(sizes)]
    for envelope, payload in sent:
        path.send(envelope, payload)
    assert [ears.frames.get(timeout=5) for _ in sent] == sent
    path.close()


def test_a_reader_that_is_behind_holds_the_sender_and_loses_nothing() -> None:
    """More than all buffers hold is sent while the reader's callback waits."""
    free, got = threading.Event(), queue.SimpleQueue[int]()

    def take(source: str, header: bytes, payload: memoryview) -> None:
        free.wait(20)
        got.put(len(payload))

    listener = LocalListener("slow", take, lambda reason: None)
    path = LocalPath("sender", listener.admit("sender"))
    size, count = 2**23, 12
    sender = threading.Thread(target=lambda: [path.send(b"", bytes(size)) for _ in range(count)])
    sender.start()
    try:
        wait_until(lambda: path.unconsumed > 1)
        sender.join(0.3)
        assert sender.is_alive()
        free.set()
        assert [got.get(timeout=20) for _ in range(count)] == [size] * count
        sender.join(20)
        assert path.unconsumed == 0
    finally:
        free.set()
        listener.close()
        path.close()


HEAD = struct.Struct("<IQq")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HEAD.pack(2**31, 0, -1), "frame says"),
        (HEAD.pack(1, 2**40, -1), "frame says"),
        (HEAD.pack(1, 100, 2**20), "leaves"),
        (HEAD.pack(1, 2**19, 2**19), "leaves"),
        (HEAD.pack(1, 100, 32), "leaves"),
    ],
)
def test_lying_heads_end_that_connection_only(ears: Ears, head: bytes, message: str) -> None:
    """A head that says too much is reported and its sender cut off; others go on."""
    good = LocalPath("sender", ears.listener.admit("sender"))
    arena = Arena(2**20)
    with socket.socket(socket.AF_UNIX) as bad:
        bad.connect(ears.listener.address)
        socket.send_fds(bad, [hello(ears.listener, "bad")], [arena.file])
        bad.sendall(head + b"x" * 100)
        assert message in ears.faults.get(timeout=5)
    os.close(arena.file)
    good.send(b"still", b"here")
    assert ears.frames.get(timeout=5) == (b"still", b"here")
    good.close()


def test_a_frame_cut_short_is_dropped(ears: Ears) -> None:
    """A sender that dies in the middle of a frame delivers nothing of it."""
    with socket.socket(socket.AF_UNIX) as dying:
        dying.connect(ears.listener.address)
        arena = Arena()
        socket.send_fds(dying, [hello(ears.listener, "bad")], [arena.file])
        os.close(arena.file)
        dying.sendall(HEAD.pack(3, 1000, -1) + b"abc" + b"x" * 10)
    path = LocalPath("sender", ears.listener.admit("sender"))
    path.send(b"next", b"")
    assert ears.frames.get(timeout=5) == (b"next", b"")
    path.close()


def test_a_listener_that_is_gone_is_an_error() -> None:
    """Sending to a closed listener raises, and so does connecting to it."""
    found = Ears()
    path = LocalPath("sender", found.listener.admit("sender"))
    path.send(b"a", b"b")
    found.frames.get(timeout=5)
    found.listener.close()
    try:
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            path.send(b"a", bytes(2**20))
        with pytest.raises(OSError, match="refused"):
            LocalPath("sender", found.listener.admit("sender"))
    finally:
        path.close()


def test_connections_without_sealed_memory_are_refused(ears: Ears, tmp_path: Path) -> None:
    """A file that could shrink under its reader is no shared memory; nor is none."""
    (tmp_path / "file").write_bytes(bytes(100))
    with socket.socket(socket.AF_UNIX) as bad, open(tmp_path / "file", "rb") as file:
        bad.connect(ears.listener.address)
        socket.send_fds(bad, [b"\x03bad"], [file.fileno()])
        assert "shared memory" in ears.faults.get(timeout=5)
    with socket.socket(socket.AF_UNIX) as bad:
        bad.connect(ears.listener.address)
        bad.sendall(b"x")
        assert "without shared memory" in ears.faults.get(timeout=5)


def test_the_other_end_is_asked_who_it_is() -> None:
    """A connection of this process is one of the same user."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert is_same_user(ours)
    ours.close()
    theirs.close()


def test_a_path_that_fails_half_made_leaves_nothing_open(
    ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that goes away while it is greeted costs the sender no descriptor."""

    def fail(*given: object) -> None:
        raise BrokenPipeError("gone")

    monkeypatch.setattr(socket, "send_fds", fail)
    with pytest.raises(BrokenPipeError):
        LocalPath("sender", ears.listener.admit("sender"))
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert not [target for target in targets if "partita-arena" in target]


def test_half_frames_share_a_limit() -> None:
    """A frame for whose rest there is no room beside another's ends its connection."""
    faults: queue.SimpleQueue[str] = queue.SimpleQueue()
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    listener = LocalListener(
        "test", lambda name, head, data: frames.put(head), faults.put, limits=(8, 1000)
    )
    first, second = greet(listener), greet(listener)
    try:
        first.sendall(struct.pack("<IQq", 1, 800, -1) + b"a" + b"x")
        wait_until(lambda: listener._room._left < 1000)
        second.sendall(struct.pack("<IQq", 1, 800, -1) + b"b" + b"x")
        assert faults.get(timeout=5) == "half frames hold all of 1000 bytes"
        first.sendall(b"x" * 799)
        assert frames.get(timeout=5) == b"a"
    finally:
        first.close()
        second.close()
        listener.close()


def test_connections_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit they are closed; one that says nothing is closed after a while."""
    monkeypatch.setattr(local_socket, "_HELLO_S", 0.05)
    listener = LocalListener("test", lambda *_: None, lambda _: None, limits=(3, 1000))
    try:
        silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for each in silent:
            each.connect(listener.address)
        for each in silent:
            each.settimeout(5)
            assert each.recv(1) == b""
            each.close()
        wait_until(lambda: not listener._readers)
        path = LocalPath("sender", listener.admit("sender"))
        path.send(b"a", b"x")
        path.close()
    finally:
        listener.close()


def hello(listener: LocalListener, name: str) -> bytes:
    """What a sender that was told its token says first."""
    return bytes([len(name)]) + name.encode() + listener.admit(name)[len(listener.address) :]


def test_a_token_goes_with_one_name(ears: Ears) -> None:
    """Who was told one cannot send under another name with it, nor without any."""
    own = ears.listener.admit("sender")
    liar = LocalPath("leader", own)
    with contextlib.suppress(OSError):  # it is cut off, at once or a moment later
        liar.send(b"head", b"payload")
    assert "not 'leader'" in ears.faults.get(timeout=5)
    liar.close()
    path = LocalPath("sender", own)
    path.send(b"head", b"payload")
    assert ears.frames.get(timeout=5) == (b"head", b"payload")
    path.close()


def greet(listener: LocalListener) -> socket.socket:
    """A connection that has said its name."""
    connection, arena = socket.socket(socket.AF_UNIX), Arena()
    connection.connect(listener.address)
    socket.send_fds(connection, [hello(listener, "s")], [arena.file])
    os.close(arena.file)
    return connection


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when something is so; the test fails after 5 s."""
    deadline_s = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
