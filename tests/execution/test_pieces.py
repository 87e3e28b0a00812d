"""How arguments are assembled and pieces cut out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partita.execution.pieces import as_argument, plan_codec, plan_gather
from partita.program import Buffer, Input, Stream
from partita.regions import Region

WHOLE = np.arange(48, dtype=np.float32).reshape(1, 2, 6, 4)


def box(start: int, stop: int) -> Region:
    """Return a box of rows."""
    return Region(((0, 1), (0, 2), (start, stop), (0, 4)))


def buffer(number: int, start: int, stop: int) -> Buffer:
    """Return a buffer of rows."""
    return Buffer(number, "x", box(start, stop), "float32", 1)


def test_a_buffer_that_is_the_argument_is_not_copied() -> None:
    """Where box and argument are equal the array itself is handed on."""
    argument = Input("x", box(0, 6), (0,))
    plan = plan_gather(argument, {0: buffer(0, 0, 6)})
    assert plan.collect({0: WHOLE}) is WHOLE


def test_one_larger_buffer_is_sliced() -> None:
    """An argument inside one buffer is cut out of it, contiguous."""
    plan = plan_gather(Input("x", box(2, 4), (0,)), {0: buffer(0, 0, 6)})
    got = plan.collect({0: WHOLE})
    np.testing.assert_array_equal(got, WHOLE[:, :, 2:4])
    assert got.flags.c_contiguous


def test_the_first_of_overlapping_buffers_counts() -> None:
    """Where two buffers overlap the values are the first one's."""
    plan = plan_gather(Input("x", box(0, 6), (0, 1)), {0: buffer(0, 0, 4), 1: buffer(1, 2, 6)})
    got = plan.collect({0: WHOLE[:, :, :4], 1: -WHOLE[:, :, 2:]})
    np.testing.assert_array_equal(got[:, :, :4], WHOLE[:, :, :4])
    np.testing.assert_array_equal(got[:, :, 4:], -WHOLE[:, :, 4:])


def test_buffers_that_the_route_leaves_out_are_skipped() -> None:
    """Of two alternatives the one that is there is the argument, uncopied."""
    plan = plan_gather(Input("x", box(0, 6), (0, 1)), {0: buffer(0, 0, 6), 1: buffer(1, 0, 6)})
    assert plan.collect({1: WHOLE}) is WHOLE


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 6))
def test_rows_from_any_two_owners_make_the_whole(cut: int, start: int, stop: int) -> None:
    """However rows are divided between two buffers, the argument equals the whole's rows."""
    start, stop = sorted((start, stop))
    if start == stop:
        return
    plan = plan_gather(
        Input("x", box(start, stop), (0, 1)), {0: buffer(0, 0, cut), 1: buffer(1, cut, 6)}
    )
    got = plan.collect({0: WHOLE[:, :, :cut], 1: WHOLE[:, :, cut:]})
    np.testing.assert_array_equal(got, WHOLE[:, :, start:stop])
    assert got.flags.c_contiguous


def test_a_stream_carries_its_box_out_of_a_larger_buffer() -> None:
    """What the sender encodes out of its buffer is what the receiver decodes."""
    stream = Stream(0, "x", box(1, 3), "float32", "a", "b", "raw", 64, 1)
    payload = plan_codec(stream, box(0, 6)).encode(WHOLE)
    got = plan_codec(stream).decode(payload)
    np.testing.assert_array_equal(got, WHOLE[:, :, 1:3])


def test_unaligned_memory_is_copied() -> None:
    """An array at an odd address is moved before an engine sees it."""
    raw = np.frombuffer(b"\0" + WHOLE.tobytes(), np.uint8)
    odd = raw[1:].view(np.float32) if raw.ctypes.data % 4 == 3 else raw[1:].view("<f4")
    fixed = as_argument(odd.reshape(WHOLE.shape))
    assert fixed.flags.aligned
    np.testing.assert_array_equal(fixed, WHOLE)
