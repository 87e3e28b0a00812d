"""What a caller gives to a request, compared with what the model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partita.errors import InputError, first_line
from partita.program.steps import TensorSpec
from partita.regions import Array


def check_feeds(specs: Sequence[TensorSpec], feeds: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays by name in the model's order, contiguous.

    Raises:
        InputError: A name is unknown or missing, or shape or type differ.
    """
    names = [spec.name for spec in specs]
    if not isinstance(feeds, Mapping):
        raise InputError(f"Inputs are a {type(feeds).__name__}: allowed are arrays by name.")
    if set(feeds) != set(names):
        raise InputError(
            f"Inputs {', '.join(map(repr, feeds)) or 'none'} do not fit the model: it takes"
            f" {', '.join(map(repr, names))}."
        )
    arrays = {}
    for spec in specs:
        try:
            array = np.asarray(feeds[spec.name])
        except Exception as error:  # whatever an object's own conversion raises
            raise InputError(
                f"Input '{spec.name}' is no array: {first_line(error)}.", subject=spec.name
            ) from None
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.shape != spec.shape or array.dtype != spec.dtype:
            raise InputError(
                f"Input '{spec.name}' is {array.dtype.name}{list(array.shape)}, the model takes"
                f" {spec.dtype}{list(spec.shape)}.",
                subject=spec.name,
            )
        arrays[spec.name] = np.ascontiguousarray(array).reshape(spec.shape)
    return arrays
