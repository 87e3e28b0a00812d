"""The content store."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from partita.errors import RunError
from partita.worker import Store, default_store_dir
from partita.worker.store import LEASE_S, MAX_LEASES


def name_of(data: bytes) -> str:
    """Return the name under which ``data`` is stored."""
    return hashlib.sha256(data).hexdigest()


def test_content_comes_back_as_it_was_put(tmp_path: Path) -> None:
    """What was put in chunks is read back whole, memory-mapped and read-only."""
    store, data = Store(tmp_path), bytes(range(256)) * 10
    half = len(data) // 2
    assert not store.put_chunk(name_of(data), 0, len(data), data[:half])
    assert store.missing([name_of(data)]) == (name_of(data),)
    assert store.put_chunk(name_of(data), half, len(data), data[half:])
    content = store.open(name_of(data))
    assert content.tobytes() == data
    assert not content.flags.writeable
    assert store.missing([name_of(data), name_of(data)]) == ()


def test_an_empty_blob_is_content_too(tmp_path: Path) -> None:
    """Weights of no bytes can be stored and read."""
    store = Store(tmp_path)
    store.put(name_of(b""), b"")
    assert store.open(name_of(b"")).size == 0


def test_content_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    """A wrong hash is an error and leaves no file."""
    store = Store(tmp_path, owner="nano")
    with pytest.raises(RunError, match=r"'nano'.*damaged on the way"):
        store.put(name_of(b"right"), b"wrong")
    assert list(tmp_path.iterdir()) == []


def test_a_chunk_out_of_order_ends_the_upload(tmp_path: Path) -> None:
    """A gap between chunks is an error and leaves no file."""
    store, data = Store(tmp_path), b"0123456789"
    store.put_chunk(name_of(data), 0, 10, data[:4])
    with pytest.raises(RunError, match="does not follow"):
        store.put_chunk(name_of(data), 6, 10, data[6:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "abc", "G" * 64])
def test_names_that_are_no_hashes_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing outside the store can be named."""
    with pytest.raises(RunError, match="not a SHA-256"):
        Store(tmp_path).put(name, b"data")


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    """Under the quota's pressure what was used longest ago is dropped, and nothing more."""
    store = Store(tmp_path, 30)
    blobs = [bytes([n]) * 10 for n in range(4)]
    for age, blob in enumerate(blobs[:3]):
        store.put(name_of(blob), blob)
        os.utime(tmp_path / name_of(blob), (age, age))
    store.open(name_of(blobs[0]))
    store.put(name_of(blobs[3]), blobs[3])
    assert store.missing(map(name_of, blobs)) == (name_of(blobs[1]),)
    assert store.used_bytes() == 30


def test_what_an_epoch_uses_is_not_dropped(tmp_path: Path) -> None:
    """Pinned content survives; when all is pinned the quota is an error with both numbers."""
    store = Store(tmp_path, 25)
    first, second, third = (bytes([n]) * 10 for n in range(3))
    store.put(name_of(first), first)
    store.put(name_of(second), second)
    store.pin(1, [name_of(first)])
    store.put(name_of(third), third)
    assert store.missing([name_of(first)]) == ()
    store.pin(2, [name_of(third)])
    with pytest.raises(RunError, match=r"quota 25 B, 20 B in use .*--quota"):
        store.put(name_of(second), second)
    store.unpin(1)
    store.put(name_of(second), second)
    assert store.missing([name_of(first)]) == (name_of(first),)


@pytest.mark.parametrize("damage", [b"Weights", b"weight", b""])
def test_damage_on_disk_is_found_when_opened(tmp_path: Path, damage: bytes) -> None:
    """A file that was changed, cut or emptied is an error and is deleted, to come again."""
    store, data = Store(tmp_path), b"weights"
    store.put(name_of(data), data)
    (tmp_path / name_of(data)).write_bytes(damage)
    with pytest.raises(RunError, match="damaged on disk"):
        store.open(name_of(data))
    assert store.missing([name_of(data)]) == (name_of(data),)


def test_half_written_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    """A new store deletes the unfinished uploads of processes that no longer live, no others."""
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    old = tmp_path / f".0123456789abcdef-{int(dead.stdout)}-01234567.part"
    mine = tmp_path / f".0123456789abcdef-{os.getpid()}-01234567.part"
    old.touch()
    mine.touch()
    Store(tmp_path)
    assert not old.exists()
    assert mine.exists()


def test_closing_drops_unfinished_uploads(tmp_path: Path) -> None:
    """Nothing half-written stays behind."""
    store = Store(tmp_path)
    store.put_chunk(name_of(b"0123456789"), 0, 10, b"0123")
    assert store.used_bytes() == 4
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_the_default_directory_follows_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store lies in the user's cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_store_dir() == Path("/somewhere/partita/store")


def test_an_upload_may_begin_anew(tmp_path: Path) -> None:
    """A leader that lost its connection starts at byte 0 again; the half before is dropped."""
    store, data = Store(tmp_path), b"0123456789"
    store.put_chunk(name_of(data), 0, 10, b"01234")
    assert not store.put_chunk(name_of(data), 0, 10, data[:4])
    assert store.put_chunk(name_of(data), 4, 10, data[4:])
    assert store.open(name_of(data)).tobytes() == data
    assert [path.name for path in tmp_path.iterdir()] == [name_of(data)]


def test_a_chunk_of_another_size_ends_the_upload(tmp_path: Path) -> None:
    """The whole size is said with each chunk; who changes it in between is refused."""
    store, data = Store(tmp_path), b"0123456789"
    store.put_chunk(name_of(data), 0, 10, data[:4])
    with pytest.raises(RunError, match="begin the upload again"):
        store.put_chunk(name_of(data), 4, 11, data[4:])
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_were_said_are_refused(tmp_path: Path) -> None:
    """Content whose end overshoots is no content, even if a prefix has the right hash."""
    store = Store(tmp_path)
    with pytest.raises(RunError, match="damaged on the way"):
        store.put_chunk(name_of(b"0123"), 0, 4, b"01234")
    assert list(tmp_path.iterdir()) == []


def test_uploads_count_for_what_has_arrived(tmp_path: Path) -> None:
    """A second upload may begin beside an announced one; bytes beyond the quota are refused."""
    store = Store(tmp_path, 15, owner="nano")
    zeros, ones = b"0" * 10, b"1" * 10
    store.put_chunk(name_of(zeros), 0, 10, zeros[:4])
    store.put_chunk(name_of(ones), 0, 10, ones[:9])
    with pytest.raises(RunError, match=r"no room for 6 B: quota 15 B, 13 B in use"):
        store.put_chunk(name_of(zeros), 4, 10, zeros[4:])
    assert store.put_chunk(name_of(ones), 9, 10, ones[9:])
    assert [path.name for path in tmp_path.iterdir()] == [name_of(ones)]


def test_an_announced_upload_evicts_nothing(tmp_path: Path) -> None:
    """One byte of a large upload evicts no content: room is made for what has arrived."""
    store, old = Store(tmp_path, 20), b"o" * 10
    store.put(name_of(old), old)
    large = b"l" * 15
    store.put_chunk(name_of(large), 0, 15, large[:1])
    assert store.missing([name_of(old)]) == ()
    store.put_chunk(name_of(large), 1, 15, large[1:10])
    assert store.missing([name_of(old)]) == ()
    assert store.put_chunk(name_of(large), 10, 15, large[10:])
    assert store.missing([name_of(old)]) == (name_of(old),)


def test_an_upload_that_can_never_fit_is_refused_at_once(tmp_path: Path) -> None:
    """What is larger than the quota beside pinned content gets no further than its first byte."""
    store, held = Store(tmp_path, 20), b"h" * 10
    store.put(name_of(held), held)
    store.pin(1, [name_of(held)])
    with pytest.raises(RunError, match=r"no room for 11 B: quota 20 B, 10 B in use by plans"):
        store.put_chunk(name_of(b"n" * 11), 0, 11, b"n")
    assert [path.name for path in tmp_path.iterdir()] == [name_of(held)]


class Time:
    """A clock that stands until it is set."""

    now_s = 0.0

    def __call__(self) -> float:
        """Its time in seconds."""
        return self.now_s


def test_a_leader_that_goes_after_it_asked_holds_nothing_for_long(tmp_path: Path) -> None:
    """Leased content is kept while chunks come, and may be evicted a lease after the last one."""
    clock = Time()
    store = Store(tmp_path, 20, now_s=clock)
    first, second = b"1" * 10, b"2" * 10
    store.put(name_of(first), first)
    store.lease(1, [name_of(first), name_of(second)])
    clock.now_s = 0.9 * LEASE_S
    store.put_chunk(name_of(second), 0, 10, second[:1])
    clock.now_s = 1.8 * LEASE_S
    with pytest.raises(RunError, match="no room"):
        store.put(name_of(b"3" * 15), b"3" * 15)
    clock.now_s = 2.0 * LEASE_S
    store.put(name_of(b"3" * 15), b"3" * 15)
    assert [path.name for path in tmp_path.iterdir()] == [name_of(b"3" * 15)]


def test_what_is_prepared_has_no_lease(tmp_path: Path) -> None:
    """Content of a prepared epoch stays until it is unpinned, whatever is leased later."""
    clock = Time()
    store, data = Store(tmp_path, 10, now_s=clock), b"d" * 10
    store.put(name_of(data), data)
    store.pin(1, [name_of(data)])
    store.lease(1, [])
    clock.now_s = 10 * LEASE_S
    with pytest.raises(RunError, match="no room"):
        store.put(name_of(b"e" * 10), b"e" * 10)


def test_leases_and_uploads_are_few(tmp_path: Path) -> None:
    """Leaders that only announce hold neither memory nor files beyond a limit."""
    clock = Time()
    store = Store(tmp_path, now_s=clock)
    for number in range(MAX_LEASES):
        store.lease(number, [name_of(b"x")])
        store.put_chunk(name_of(bytes([number])), 0, 2, b"y")
    store.lease(0, [name_of(b"x")])
    with pytest.raises(RunError, match="plans are on their way to it already"):
        store.lease(MAX_LEASES, [])
    with pytest.raises(RunError, match="uploads are under way already"):
        store.put_chunk(name_of(b"x"), 0, 2, b"y")
    clock.now_s = 2 * LEASE_S
    store.lease(MAX_LEASES, [])
    store.put_chunk(name_of(b"x"), 0, 2, b"y")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_takes_no_more_leaves_no_file(tmp_path: Path) -> None:
    """A failed write is one line with the system's reason, and the half of the upload is gone."""
    store, data = Store(tmp_path, owner="nano"), b"0" * 2**20
    store.put_chunk(name_of(data), 0, len(data), data[: 2**19])
    assert len(list(tmp_path.iterdir())) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    try:
        with pytest.raises(RunError, match=r"'nano'.*cannot be written: File too large"):
            store.put_chunk(name_of(data), 2**19, len(data), data[2**19 :])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    store.put(name_of(data), data)


def test_two_processes_share_one_directory(tmp_path: Path) -> None:
    """What one store has put the other has, too; what one evicts the other misses."""
    first, second = Store(tmp_path, 10), Store(tmp_path, 10)
    first.put(name_of(b"a" * 10), b"a" * 10)
    assert second.missing([name_of(b"a" * 10)]) == ()
    second.put(name_of(b"b" * 10), b"b" * 10)
    with pytest.raises(RunError, match="is not there; deploy the plan again"):
        first.open(name_of(b"a" * 10))


def test_what_was_verified_is_not_hashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large model is hashed once per process; a file that changed since is hashed again."""
    store, data = Store(tmp_path), b"weights"
    store.put(name_of(data), data)
    store.open(name_of(data))
    hashed: list[str] = []
    verify = store._verify

    def spy(content_hash: str, content: Any, path: Path) -> None:
        hashed.append(content_hash)
        verify(content_hash, content, path)

    monkeypatch.setattr(store, "_verify", spy)
    store.open(name_of(data))
    assert hashed == []
    (tmp_path / name_of(data)).write_bytes(b"Weights")
    assert store.missing([name_of(data)]) == (name_of(data),)
    assert hashed == [name_of(data)]


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """Only files with a hash for a name are the store's: others are not counted or evicted."""
    (tmp_path / "README").write_bytes(b"x" * 100)
    store = Store(tmp_path, 10)
    store.put(name_of(b"a" * 10), b"a" * 10)
    store.put(name_of(b"b" * 10), b"b" * 10)
    assert store.used_bytes() == 10
    assert (tmp_path / "README").exists()


def test_what_stands_by_goes_after_all_else_and_before_an_error(tmp_path: Path) -> None:
    """It stays in room that nobody needs; what must stay takes its room, and its leader's end."""
    store = Store(tmp_path, 30)
    spare, idle, first, second = (bytes([n]) * 10 for n in range(4))
    for blob in (spare, idle):
        store.put(name_of(blob), blob)
    store.lease(7, [name_of(spare)], "leader")
    store.pin(1, [name_of(first)])
    store.put(name_of(first), first)
    store.put(name_of(second), second)
    assert store.missing(map(name_of, (spare, idle))) == (name_of(idle),)
    store.pin(1, map(name_of, (first, second)))
    store.put(name_of(idle), idle)
    assert store.missing([name_of(spare)]) == (name_of(spare),)


@pytest.mark.parametrize("end", ["unpin", "release"])
def test_what_stands_by_is_let_go(tmp_path: Path, end: str) -> None:
    """With its epoch, or with its leader, and not with another's."""
    store = Store(tmp_path, 20)
    blobs = [bytes([n]) * 10 for n in range(3)]
    for blob in blobs[:2]:
        store.put(name_of(blob), blob)
    os.utime(tmp_path / name_of(blobs[0]), (0, 0))
    store.lease(7, [name_of(blobs[0])], "leader")
    store.release("another")
    assert 7 in store._pins
    if end == "unpin":
        store.unpin(7)
    else:
        store.release("leader")
    store.put(name_of(blobs[2]), blobs[2])
    assert store.missing([name_of(blobs[0])]) == (name_of(blobs[0]),)


def test_use_by_one_process_is_no_damage_to_another(tmp_path: Path) -> None:
    """Content is hashed once by each, however many use it."""
    one, other = Store(tmp_path), Store(tmp_path)
    one.put(name_of(b"data"), b"data")
    hashed: list[str] = []
    verify = other._verify

    def count(name: str, *rest: Any) -> None:
        hashed.append(name)
        verify(name, *rest)

    other._verify = count  # type: ignore[method-assign]
    for _ in range(3):
        one.open(name_of(b"data"))
        other.open(name_of(b"data"))
    assert len(hashed) == 1
