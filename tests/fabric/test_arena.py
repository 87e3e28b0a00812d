"""Arenas, both ends in one process."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from partita.fabric.arena import Arena, ArenaView


def test_blocks_come_back_and_room_is_used_again() -> None:
    """Far more than the arena holds passes through it, in any sizes, byte for byte."""
    arena = Arena(64 * 1024)
    view = ArenaView(arena.file)
    for number in range(300):
        data = os.urandom(1 + number * 377 % 30_000)
        place = arena.allocate(data)
        assert place == 64
        assert bytes(view.read(place, len(data))) == data


def test_blocks_that_are_looked_at_are_never_written() -> None:
    """While views live, in any order, what they show does not change; there is no room at times."""
    arena, choose = Arena(64 * 1024), random.Random(0)
    view = ArenaView(arena.file)
    held: list[tuple[np.ndarray, bytes]] = []
    full = 0
    for _ in range(2000):
        data = bytes([choose.randrange(256)]) * choose.randrange(1, 9000)
        place = arena.allocate(data)
        if place is None:
            full += 1
        else:
            # What readers keep: an array made of the view, of another shape and type.
            array = np.frombuffer(view.read(place, len(data)), np.uint8)[:, None]
            held.append((array, data))
        if place is None or choose.random() < 0.4:
            held.pop(choose.randrange(len(held)))
        assert all(bytes(array) == data for array, data in held)
    assert full > 10


def test_a_full_arena_says_so_and_is_used_again_when_a_block_is_free() -> None:
    """Neither what is larger than the arena nor what finds no room is written anywhere."""
    arena = Arena(1024)
    view = ArenaView(arena.file)
    assert arena.allocate(bytes(2000)) is None
    first, second = arena.allocate(b"a" * 400), arena.allocate(b"b" * 300)
    assert first is not None
    assert second is not None
    assert arena.allocate(b"c" * 400) is None
    block = view.read(first, 400)
    assert arena.allocate(b"c" * 400) is None
    del block
    assert arena.allocate(b"c" * 400) == first
    assert bytes(view.read(second, 300)) == b"b" * 300


def test_a_block_that_nobody_has_read_is_not_free() -> None:
    """A sender that is ahead of its reader does not write over what is still to be read."""
    arena = Arena(1024)
    view = ArenaView(arena.file)
    place = arena.allocate(b"first" * 100)
    assert place is not None
    assert arena.allocate(b"other" * 100) is None
    assert bytes(view.read(place, 500)) == b"first" * 100


def test_the_reader_counts_what_it_has_consumed() -> None:
    """The count lies before the blocks: no block ever writes over it."""
    arena = Arena(1024)
    view = ArenaView(arena.file)
    arena.allocate(b"\xff" * 800)
    for count in range(1, 4):
        view.count()
        assert arena.consumed == count


@pytest.mark.parametrize(
    ("place", "length"), [(0, 9), (32, 9), (96, 9), (-64, 9), (64, 999), (960, 1)]
)
def test_places_outside_the_blocks_are_refused(place: int, length: int) -> None:
    """The count, the middle of a line, negative places and overlong blocks are no blocks."""
    arena = Arena(1024)
    view = ArenaView(arena.file)
    with pytest.raises(ValueError, match="leaves its memory"):
        view.read(place, length)


def test_memory_that_could_shrink_is_refused_and_its_descriptor_closed() -> None:
    """A reader of a file that its sender truncates would be killed by the kernel."""
    file = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, 1024)
    with pytest.raises(ValueError, match="not sealed"):
        ArenaView(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_a_block_is_given_back_by_one_byte() -> None:
    """The sender may write a larger piece over the flag as soon as its first byte says free."""
    arena = Arena(1024)
    view = ArenaView(arena.file)
    place = arena.allocate(b"a" * 100)
    assert place is not None
    block = view.read(place, 100)
    arena._bytes[place + 1 : place + 8] = 255  # that piece, where the reader is held up in between
    del block
    assert arena._bytes[place : place + 8].tolist() == [0, *[255] * 7]
