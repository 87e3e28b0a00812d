"""Requests of a session: inputs, outputs so far, and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from partita.errors import InputError
from partita.program import TensorSpec, check_feeds
from partita.regions import Array

Arrays = dict[str, Array]


class AnswerFuture(Future[Arrays]):
    """An answer that is to come.

    Attributes:
        plan_hash: Of the plan that gave it; empty before.
    """

    plan_hash = ""


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
        is_again: Whether it was fed before under an epoch that did not answer it.
    """

    index: int
    inputs: tuple[Array, ...]
    future: AnswerFuture | None
    start_s: float = 0.0
    end_s: float = 0.0
    epoch: int = 0
    number: int = -1
    is_again: bool = False
    outputs: dict[int, Array] = field(default_factory=dict)


def check_inputs(specs: Sequence[TensorSpec], given: Mapping[str, Any]) -> tuple[Array, ...]:
    """The arrays of a request in the model's order; see :func:`partita.program.check_feeds`."""
    return tuple(check_feeds(specs, given).values())


def refuse_odd(requests: object) -> None:
    """Refuse what is no series of requests, such as the arrays of one.

    Raises:
        InputError: Says what is allowed.
    """
    if isinstance(requests, Mapping | str) or not isinstance(requests, Iterable):
        raise InputError(
            f"Requests are of type {type(requests).__name__}: allowed is a list that has arrays by"
            " input name for each request."
        )
