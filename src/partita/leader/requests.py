"""Requests of a session: inputs, outputs so far, and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partita.errors import InputError
from partita.program import TensorSpec
from partita.regions import Array

Arrays = dict[str, Array]


@dataclass(eq=False, slots=True)
class Request:
    """One request of the session.

    Attributes:
        index: Its number in the session, from 0; a change of epoch keeps it.
        inputs: Kept until the answer is there, to be fed again.
        future: None once it has the answer, so that reports do not keep all outputs.
        start_s: When it was first fed, on the leader's clock.
        end_s: When its last output was there; 0 before.
        number: Its number under ``epoch``; -1 while it is not admitted.
    """

    index: int
    inputs: tuple[Array, ...]
    future: Future[Arrays] | None
    start_s: float = 0.0
    end_s: float = 0.0
    epoch: int = 0
    number: int = -1
    outputs: dict[int, Array] = field(default_factory=dict)


def check_inputs(specs: Sequence[TensorSpec], given: Mapping[str, Any]) -> tuple[Array, ...]:
    """The arrays in the model's order, contiguous.

    Args:
        given: Arrays by input name.

    Raises:
        InputError: A name is missing or unknown, or shape or type differ.
    """
    names = [spec.name for spec in specs]
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if unknown or missing:
        got = ", ".join(repr(name) for name in given) or "none"
        raise InputError(
            f"Inputs {got} do not fit the model: it takes {', '.join(map(repr, names))}.",
            subject=(unknown or missing)[0],
        )
    return tuple(_check_input(spec, np.asarray(given[spec.name])) for spec in specs)


def _check_input(spec: TensorSpec, array: Array) -> Array:
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise InputError(
            f"Input {spec.name!r} is {array.dtype.name}{list(array.shape)}, "
            f"the model takes {spec.dtype}{list(spec.shape)}.",
            subject=spec.name,
        )
    return np.ascontiguousarray(array).reshape(spec.shape)
