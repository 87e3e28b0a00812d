"""Checksums of chunks: what they notice."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from partita.fabric.checksum import compute_checksum
from partita.fabric.flows import DamagedError, Envelope, read_envelope, write_envelope
from tests.mutations import mutate_bytes


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, 262_144, 262_145, 1_000_003])
def test_every_damage_is_noticed(size: int) -> None:
    """Flipped bits, cut, doubled and moved bytes: of thousands none passes."""
    rng = Random(size)
    data = rng.randbytes(size)
    whole = compute_checksum(data, b"head")
    for _ in range(300 if size < 10**5 else 30):
        damaged = mutate_bytes(data, rng)
        assert damaged == data or compute_checksum(damaged, b"head") != whole
    assert compute_checksum(data, b"heae") != whole


def test_words_that_change_places_are_noticed() -> None:
    """A plain sum would not see it, nor one of products two signs that change."""
    words = np.arange(100, dtype=np.uint64)
    other = words.copy()
    other[[3, 70]] = other[[70, 3]]
    assert compute_checksum(words.tobytes()) != compute_checksum(other.tobytes())
    signs = words.copy()
    signs[[3, 70]] ^= np.uint64(1 << 63)
    assert compute_checksum(words.tobytes()) != compute_checksum(signs.tobytes())
    blocks = np.zeros(2**16, np.uint64)
    blocks[0] = 1
    moved = np.roll(blocks, 2**15)
    assert compute_checksum(blocks.tobytes()) != compute_checksum(moved.tobytes())


def test_the_same_everywhere() -> None:
    """Hosts with other versions of Python and xxHash have to agree: a number that stays."""
    assert compute_checksum(bytes(range(256)) * 2000, b"head") == 6426766351696735698
    assert compute_checksum(b"x" * 100, b"head") == 5832765776955052668


def test_any_kind_of_memory() -> None:
    """Bytes, views and arrays of the same content have the same checksum."""
    data = bytes(range(200))
    views = (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8).data)
    assert {compute_checksum(view) for view in views} == {compute_checksum(data)}


def test_an_envelope_is_guarded_with_its_chunk() -> None:
    """A damaged number would put a good chunk into the wrong place."""
    envelope, data = Envelope(5, 0, 1, 2, 9, b""), b"chunk"
    attachment = write_envelope(envelope, data)
    assert read_envelope(attachment, data) == envelope
    for place in range(len(attachment)):
        damaged = bytearray(attachment)
        damaged[place] ^= 1
        with pytest.raises(DamagedError):
            read_envelope(bytes(damaged), data)
    with pytest.raises(DamagedError):
        read_envelope(attachment, b"chunK")
