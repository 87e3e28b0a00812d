"""Arrays one after the other, each as NumPy's ``save`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from partita.errors import InputError, first_line
from partita.streams.items import Item, bad_item, name_frame, ready_item
from partita.streams.pipe import Pipe

#: What each begins with.
MAGIC = b"\x93NUMPY"
#: Bytes of an array: more is no input.
_MOST_BYTES = 10**9


def read_arrays(pipe: Pipe, name: str, first: int) -> Iterator[Item]:
    """An iterator over the arrays of a pipe, numbered from ``first``.

    Raises:
        InputError: One is not as it should be: where the next begins cannot be told then.
    """
    number = first
    while pipe.peek(len(MAGIC)):
        frame = name_frame(name, number)
        try:
            shape, is_columns, dtype = _read_header(pipe)
        except Exception as error:  # whatever a damaged header makes of the reader
            raise InputError(
                f"Input '{frame}' is no array as NumPy saves it: {first_line(error)}. The stream"
                " cannot be read on from there.",
                subject=frame,
            ) from error
        wanted = prod(shape) * dtype.itemsize
        data = pipe.read_all(wanted)
        if len(data) < wanted:
            yield bad_item(frame, f"the stream ends after {len(data)} of its {wanted} bytes")
            return
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if is_columns else "C")
        yield ready_item(frame, array)
        number += 1


def _read_header(pipe: Pipe) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type.

    Raises:
        ValueError: It is no header, or of what is no input.
    """
    version = np.lib.format.read_magic(pipe)
    if version == (1, 0):
        shape, is_columns, dtype = np.lib.format.read_array_header_1_0(pipe)
    elif version == (2, 0):
        shape, is_columns, dtype = np.lib.format.read_array_header_2_0(pipe)
    else:
        raise ValueError(f"version {version}, allowed: (1, 0) and (2, 0)")
    if dtype.kind not in "biuf":
        raise ValueError(f"it holds {dtype}, allowed: numbers")
    if any(extent < 0 for extent in shape) or prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise ValueError(f"its shape is {shape} of {dtype}, allowed are {_MOST_BYTES} bytes")
    return shape, is_columns, dtype


def is_array_stream(pipe: Pipe) -> bool:
    """Whether a pipe begins with an array; the bytes stay to be read."""
    return pipe.peek(len(MAGIC)) == MAGIC
