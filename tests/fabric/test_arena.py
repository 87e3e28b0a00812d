"""Arenas, both ends in one process."""

from __future__ import annotations

import os
import random

import numpy as np

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
