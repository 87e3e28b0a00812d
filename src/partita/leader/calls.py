"""What others may ask of a leader while it runs a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from partita.errors import RunError
from partita.fabric import Caller, Endpoint
from partita.leader.worker_group import CALL_TIMEOUT_S
from partita.worker.leaders import (
    ASK_LEADERS,
    PATIENCE_S,
    AskLeaders,
    LeaderAnswer,
    LeaderAnswers,
)
from partita.worker.messages import decode_message, encode_message

#: The method by which leaders say that they are there.
WHO = "who"
#: The method by which a device is freed, and the longest that it takes: a search, loading, and the
#: end of requests that are under way.
DRAIN, DRAIN_S = "drain", 120.0
#: Method by which others ask a leader for a sample.
SAMPLE = "sample"
#: Answers a method that a leader offers; mostly a worker calls, which passes others' calls on.
Answer = Callable[[Caller, bytes], bytes]


class LeaderCalls:
    """The methods that a leader answers, by name.

    Args:
        endpoint: The leader's own; its handler of calls is taken over.
        is_open: Whether that is done: who only measures leaves the calls to what runs later.
    """

    def __init__(self, endpoint: Endpoint, *, is_open: bool = True) -> None:
        self._methods: dict[str, Answer] = {WHO: lambda caller, body: b""}
        if is_open:
            endpoint.serve(self._answer)

    def offer(self, method: str, answer: Answer) -> None:
        """Answer a method from now on, on threads of the endpoint."""
        self._methods[method] = answer

    def _answer(self, caller: Caller, method: str, body: bytes) -> bytes:
        if method not in self._methods:
            raise RunError(f"Leaders here answer no {method!r}: {', '.join(self._methods)}.")
        return self._methods[method](caller, body)


def put_off(endpoint: Endpoint, doing: str) -> None:
    """Tell those who look on what a leader is doing before there is anything to see."""

    def refuse(caller: Caller, body: bytes) -> bytes:
        raise RunError(f"it is {doing}")

    LeaderCalls(endpoint).offer(SAMPLE, refuse)


def ask_leaders(
    endpoint: Endpoint,
    device: str,
    method: str,
    message: msgspec.Struct | None = None,
    *,
    leader: str = "",
    wait_s: float = PATIENCE_S,
) -> tuple[LeaderAnswer, ...]:
    """What the leaders of a worker's plans answer; the worker passes the call on.

    Args:
        endpoint: Anybody's who reaches the worker.
        device: The worker.
        method: One that leaders offer.
        message: What is asked.
        leader: The only one to ask; all where empty.
        wait_s: Longest wait for each of them.

    Raises:
        RunError: The worker does not answer, or refuses: leaders alone ask for more than a look.
    """
    body = b"" if message is None else encode_message(message)
    order = encode_message(AskLeaders(method, body, leader, wait_s))
    answer = endpoint.call(device, ASK_LEADERS, order, CALL_TIMEOUT_S + wait_s)
    return decode_message(answer, LeaderAnswers).answers


def find_leaders(endpoint: Endpoint) -> list[str]:
    """The names of the leaders whose plans the workers hold that an endpoint reaches."""
    names: dict[str, None] = {}
    for device in sorted(endpoint.peers()):
        with suppress(RunError):  # another leader, or a worker that is gone
            answers = ask_leaders(endpoint, device, WHO)
            names |= dict.fromkeys(answer.leader for answer in answers if not answer.error)
    return list(names)
