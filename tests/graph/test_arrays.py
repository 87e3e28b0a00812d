"""Constants that are made when they are first read."""

from __future__ import annotations

import numpy as np

from partita.graph.arrays import Arrays, ArraySpec

SPEC = ArraySpec((2, 3), np.dtype(np.float32))


def test_what_is_put_there_for_later_is_made_once_somebody_reads_it() -> None:
    """Shape, type and names are known before; what was made stays."""
    made: list[int] = []

    def make() -> np.ndarray:
        made.append(1)
        return np.ones((2, 3), np.float32)

    arrays = Arrays({"known": np.zeros(4, np.int8)})
    arrays.put_later("later", SPEC, make)
    assert list(arrays) == ["known", "later"]
    assert "later" in arrays
    assert arrays.spec("later") == SPEC
    assert (arrays.spec("later").size, arrays.spec("later").nbytes) == (6, 24)
    assert arrays.spec("known") == ArraySpec((4,), np.dtype(np.int8))
    assert not made
    assert arrays["later"] is arrays["later"]
    assert len(made) == 1


def test_copies_and_parts_keep_what_is_not_made() -> None:
    """Neither reads anything; what the copy is given the first does not have."""

    def fail() -> np.ndarray:
        raise AssertionError

    arrays = Arrays({"one": np.zeros(1), "two": np.zeros(2)})
    arrays.put_later("later", SPEC, fail)
    copied = Arrays(arrays)
    copied["more"] = np.zeros(3)
    del copied["one"]
    assert list(copied) == ["two", "later", "more"]
    assert list(arrays.only({"later", "two"})) == ["two", "later"]
    assert len(arrays) == 3
