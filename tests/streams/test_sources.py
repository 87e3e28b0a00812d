"""Inputs of folders, videos and pipes: names, order, what is left out, and what is damaged."""

from __future__ import annotations

import fcntl
import os
import resource
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from partita.errors import InputError
from partita.streams import find_source
from partita.streams.folder import FolderSource
from partita.streams.items import Item
from partita.streams.pipe import Pipe
from partita.streams.video import LiveVideo, PipedVideo
from tests.streams.media import (
    draw_pixels,
    fault_of,
    grey_of,
    jpegs,
    piped,
    read_source,
    saved,
    write_pictures,
    write_video,
)


def test_a_folder_gives_its_files_in_the_order_of_names(tmp_path: Path) -> None:
    """Other files are passed over, and so are inputs that have answers."""
    names = write_pictures(tmp_path, 4)
    (tmp_path / "readme.txt").write_text("no picture")
    items = read_source(find_source(str(tmp_path)), names[1])
    assert [item.name for item in items] == [names[0], *names[2:]]
    assert [grey_of(item) for item in items] == [0, 20, 30]


def test_a_picture_that_cannot_be_decoded_is_one_bad_input(tmp_path: Path) -> None:
    """It is named, and the others are good."""
    names = write_pictures(tmp_path, 3)
    data = (tmp_path / names[1]).read_bytes()
    (tmp_path / names[1]).write_bytes(data[: len(data) // 2])
    faults = [fault_of(item) for item in read_source(find_source(str(tmp_path)))]
    assert [bool(fault) for fault in faults] == [False, True, False]
    assert names[1] in faults[1]


def test_a_followed_folder_waits_for_whole_files(tmp_path: Path) -> None:
    """A file is an input once it stays as it is, and only once, until nobody wants more."""
    write_pictures(tmp_path, 1)
    stop, found = Event(), list[Item]()

    def read() -> None:
        for item in FolderSource(tmp_path, follows=True).items((), stop):
            found.append(item)
            if len(found) == 1:
                write_pictures(tmp_path, 2)
            else:
                stop.set()

    thread = Thread(target=read)
    thread.start()
    thread.join(20)
    assert [item.name for item in found] == ["000.png", "001.png"]


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mp4", "mpeg4"), ("a.mp4", "libx264"), ("a.avi", "mjpeg")]
)
def test_a_video_gives_its_frames(tmp_path: Path, name: str, codec: str) -> None:
    """Numbered and in order; a second run goes on after the last frame that has an answer."""
    path = write_video(tmp_path / name, 6, codec)
    items = read_source(find_source(str(path)))
    assert [item.name for item in items] == [f"{name}#{number:06d}" for number in range(6)]
    assert [grey_of(item) for item in items] == [0, 10, 20, 30, 40, 50]
    rest = read_source(find_source(str(path)), items[1].name, items[3].name, "b.mp4#000099")
    assert [item.name for item in rest] == [item.name for item in items[4:]]


def test_a_damaged_frame_is_one_bad_input(tmp_path: Path) -> None:
    """Frames after it are good again: their numbers count it."""
    path = write_video(tmp_path / "a.avi", 5, "mjpeg")
    data = bytearray(path.read_bytes())
    starts = [n for n in range(len(data)) if data[n : n + 3] == b"\xff\xd8\xff"]
    data[starts[2] : starts[2] + 300] = b"\xff" * 300
    path.write_bytes(data)
    faults = [fault_of(item) for item in read_source(find_source(str(path)))]
    assert [bool(fault) for fault in faults] == [False, False, True, False, False]
    assert faults[2].startswith("Input 'a.avi#000002' cannot be decoded: ")


def test_a_video_that_is_cut_off_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """Its frames are inputs; that there should be more is said where they end."""
    path = write_video(tmp_path / "a.mkv", 25)
    whole = path.read_bytes()
    assert [fault_of(item) for item in read_source(find_source(str(path)))] == [""] * 25
    path.write_bytes(whole[: len(whole) // 2])
    *good, last = read_source(find_source(str(path)))
    assert 0 < len(good) < 25
    assert fault_of(last).startswith(
        f"Input 'a.mkv#{len(good):06d}' cannot be decoded: the file ends there, "
    )


def test_pictures_come_through_a_pipe() -> None:
    """JPEG pictures one after the other; numbers go on from run to run."""
    with piped(jpegs(4)) as file:
        items = read_source(PipedVideo(file), "stdin#000006")
    assert [item.name for item in items] == [f"stdin#{number:06d}" for number in range(7, 11)]
    assert [grey_of(item) for item in items] == [0, 10, 20, 30]


def test_pictures_of_a_pipe_are_not_held_up() -> None:
    """A picture is there once the next one begins, however long others take."""
    pictures = jpegs(3)
    last = pictures.rfind(b"\xff\xd8\xff")
    with piped(pictures[: last + 100], ends=False) as file:
        items = PipedVideo(file).items((), Event())
        assert [grey_of(next(items)) for _ in range(2)] == [0, 10]


def test_arrays_come_through_a_pipe() -> None:
    """Each with its own shape and type, rows or columns first."""
    arrays = [draw_pixels(10), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(3)]
    with piped(saved(*arrays)) as file:
        items = read_source(PipedVideo(file))
    for item, array in zip(items, arrays, strict=True):
        got = np.asarray(item.load())
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


def test_an_array_that_is_cut_off_is_named() -> None:
    """Those before it are good."""
    data = saved(draw_pixels(10), draw_pixels(20))
    with piped(data[:-5]) as file:
        good, bad = read_source(PipedVideo(file))
    assert grey_of(good) == 10
    assert fault_of(bad).startswith("Input 'stdin#000001' cannot be decoded: the stream ends after")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (saved(draw_pixels(1)) + b"\x93NUMPY\x09\x00", "'stdin#000001' is no array as NumPy saves"),
        (saved(np.array(["a"])), "it holds <U1, allowed: numbers"),
        (b"no stream of any kind, " * 100, "Stream '-' cannot be read"),
        (b"", "Stream '-' is empty"),
    ],
)
def test_a_pipe_that_cannot_be_read_on_is_an_error(data: bytes, words: str) -> None:
    """Where the next input begins cannot be told."""
    with piped(data) as file, pytest.raises(InputError, match=words):
        read_source(PipedVideo(file))


def test_a_pipe_may_have_any_number() -> None:
    """Also one beyond those that fit a set of the system's oldest call."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
    try:
        with piped(b"abc") as file, os.fdopen(fcntl.fcntl(file, fcntl.F_DUPFD, 1500), "rb") as high:
            assert Pipe(high.fileno(), Event()).read() == b"abc"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_pipe_ends_when_nobody_wants_more() -> None:
    """A read that waits gives up; what was looked at is read again."""
    stop = Event()
    with piped(b"abcdef", ends=False) as file:
        pipe = Pipe(file, stop)
        assert [pipe.peek(3), pipe.peek(2), pipe.peek(4)] == [b"abc", b"ab", b"abcd"]
        assert pipe.read_all(6) == b"abcdef"
        stop.set()
        assert pipe.read(1) == b""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere.mp4", "Stream 'nowhere.mp4' does not exist"),
        ("nowhere.png", "'nowhere.png' does not exist"),
        ("text.mp4", "Stream 'text.mp4' cannot be read: Invalid data"),
        ("sound.wav", "Stream 'sound.wav' holds no video"),
        ("empty", "'empty' has no .npy, .npz or image files"),
    ],
)
def test_what_is_no_stream_is_refused(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, before anything is deployed."""
    import wave

    monkeypatch.chdir(tmp_path)
    Path("text.mp4").write_text("no video, " * 50)
    Path("empty").mkdir()
    with wave.open("sound.wav", "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    with pytest.raises(InputError) as caught:
        find_source(text).check()
    assert words in caught.value.message


def test_only_folders_are_followed() -> None:
    """A video has no later frames."""
    with pytest.raises(InputError, match="only folders are followed"):
        find_source("a.mp4", follows=True)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: a test's output is read."""


def test_an_address_gives_its_frames(tmp_path: Path) -> None:
    """Numbers go on from run to run: nobody knows what went by meanwhile."""
    write_video(tmp_path / "a.mkv", 3)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        source = find_source(f"http://127.0.0.1:{server.server_port}/a.mkv")
        items = read_source(source, "127.0.0.1_a.mkv#000004")
    finally:
        server.shutdown()
        server.server_close()
    assert [item.name for item in items] == [f"127.0.0.1_a.mkv#{n:06d}" for n in (5, 6, 7)]
    assert [grey_of(item) for item in items] == [0, 10, 20]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/dev/video0", "dev_video0"),
        ("rtsp://me:secret@door.lan:554/live/1?key=2", "door.lan_live_1"),
    ],
)
def test_live_sources_have_names_that_files_may_have(text: str, name: str) -> None:
    """And no password in them."""
    assert LiveVideo(text).name == name
