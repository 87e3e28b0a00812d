"""Files appear whole or not at all, and what cannot be replaced is written as it is."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from partita.files import (
    make_folder,
    pack_arrays,
    read_regular,
    require_room,
    require_writable,
    write_folder,
    write_whole,
)


def test_a_file_is_replaced_and_its_link_stays(tmp_path: Path) -> None:
    """What a link points to is written; nothing else is left."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "real").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "link").is_symlink()


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk shows itself after some bytes."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space") as caught:
        write_whole(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_of_two_that_write_one_file_the_last_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process has half-written neither appears nor is in the way."""
    path = tmp_path / "file"
    replace = os.replace

    def interrupt(source: Path, target: Path) -> None:
        monkeypatch.setattr("os.replace", replace)
        monkeypatch.setattr("os.getpid", lambda: 1)
        write_whole(path, b"of the other")
        replace(source, target)

    monkeypatch.setattr("os.replace", interrupt)
    write_whole(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_devices_and_pipes_are_written_as_they_are(tmp_path: Path) -> None:
    """They are not replaced by a file of their name."""
    write_whole(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_whole, args=(pipe, b"data"))
    writer.start()
    assert pipe.read_bytes() == b"data"
    writer.join()
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "Is a directory"),
        ("/", "Is a directory"),
        ("no/such/folder/file", "No such file"),
        ("a\0b", "NUL"),
        ("n" * 250, "File name too long"),
        ("/proc/file", "No such file"),
    ],
)
def test_what_cannot_be_written_says_why(name: str, why: str) -> None:
    """Every failure is an ``OSError`` with words, before there is data as when it is written."""
    for refuse in (require_writable, lambda path: write_whole(path, b"data")):
        with pytest.raises(OSError, match=why) as caught:
            refuse(Path(name))
        assert caught.value.strerror


def test_what_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    """To look leaves no trace: not in the folder, not in the file, and no data in a pipe."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    for name in ("real", "link", "pipe", "new"):
        require_writable(tmp_path / name)
    require_writable(Path("/dev/null"))
    make_folder(tmp_path / "a" / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link", "pipe", "real"]
    assert (tmp_path / "real").read_bytes() == b"old"
    assert not list((tmp_path / "a" / "b").iterdir())
    with pytest.raises(OSError, match="No such file") as caught:
        require_room(Path("/proc"))
    assert caught.value.filename == "/proc"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe would never end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read_regular(tmp_path / "pipe")


@pytest.mark.parametrize("is_new", [True, False])
def test_a_folder_is_written_whole_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """A disk that is full at the second file leaves neither of them, and what was there."""
    folder = tmp_path / "out"
    write_folder(folder, {"a": b"old"})
    assert (folder / "a").read_bytes() == b"old"
    if is_new:
        folder = tmp_path / "new"
    honest = Path.write_bytes

    def fill(self: Path, data: bytes) -> int:
        if self.name.startswith("b"):
            raise OSError(28, "No space left on device")
        return honest(self, data)

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space"):
        write_folder(folder, {"a": b"new", "b": b"new"})
    monkeypatch.undo()
    assert folder.exists() is not is_new
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["a"]
    assert (tmp_path / "out" / "a").read_bytes() == b"old"


def test_arrays_may_have_any_name() -> None:
    """An output may be called as NumPy calls a parameter, or as a path."""
    arrays = {
        name: np.full(shape, place, np.float32)
        for place, (name, shape) in enumerate(
            {"file": (2, 3), "allow_pickle": (), "a/b": (1,), "c.npy": (4,), "ß": (0, 2)}.items()
        )
    }
    with np.load(io.BytesIO(pack_arrays(arrays)), allow_pickle=False) as archive:
        assert archive.files == list(arrays)
        for name, array in arrays.items():
            assert np.array_equal(archive[name], array)
            assert archive[name].shape == array.shape
