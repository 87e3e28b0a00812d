"""The leaders whose plans a worker holds, and calls that it passes on to them."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec

from partita.errors import RunError
from partita.fabric import Caller, Endpoint
from partita.fabric.members import LEADER
from partita.worker.messages import decode_message

_LOG = logging.getLogger(__name__)
#: A leader answers within milliseconds, or once a worker that it asks was given up.
PATIENCE_S = 2.0
#: More than any order takes; a worker answers no more than four calls at a time.
MOST_WAIT_S = 300.0
#: Methods of leaders that change nothing: whoever may look on may have them passed on.
LOOKING = frozenset({"who", "sample", "scene"})
#: The worker's method that passes a call on.
ASK_LEADERS = "ask_leaders"


def check_leader(caller: Caller, method: str) -> None:
    """Refuse a call that is for leaders to make.

    Raises:
        RunError: The caller is none.
    """
    if caller.role != LEADER:
        _LOG.warning("refused '%s' of '%s', which is a %s", method, *caller)
        raise RunError(f"it takes {method!r} from leaders only, {caller.name!r} is a {caller.role}")


class AskLeaders(msgspec.Struct, frozen=True):
    """A call that a worker passes on to the leaders whose plans it holds.

    They are asked so because nobody else need reach them: they listen at no address.

    Attributes:
        method: One that leaders offer; see :class:`partita.leader.LeaderCalls`.
        leader: The only one to ask; all where empty.
        wait_s: Longest wait for each of them.
    """

    method: str
    body: bytes = b""
    leader: str = ""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_WAIT_S)] = PATIENCE_S


class LeaderAnswer(msgspec.Struct, frozen=True):
    """What one leader said.

    Attributes:
        error: Why it did not answer; empty where it did.
    """

    leader: str
    body: bytes = b""
    error: str = ""


class LeaderAnswers(msgspec.Struct, frozen=True):
    """Answer to :class:`AskLeaders`: one for each leader."""

    answers: tuple[LeaderAnswer, ...]


class Leaders:
    """Who brought plans to a worker.

    Args:
        endpoint: The worker's own.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._names: dict[str, None] = {}

    def meet(self, name: str) -> None:
        """Note a leader that brings a plan."""
        if name not in self._names:
            self._names[name] = None
            _LOG.info("leader '%s' connected", name)

    def part(self, name: str) -> None:
        """Forget an endpoint that left, if it was a leader."""
        if name in self._names:
            del self._names[name]
            _LOG.info("leader '%s' left", name)

    def pass_on(self, caller: Caller, body: bytes) -> LeaderAnswers:
        """What the leaders answer to an :class:`AskLeaders`, in the order in which they came.

        Raises:
            RunError: A caller that is no leader asks for more than a look.
        """
        order = decode_message(body, AskLeaders)
        if order.method in LOOKING:  # anybody may: no thread is held for long
            order = msgspec.structs.replace(order, wait_s=min(order.wait_s, PATIENCE_S))
        else:
            check_leader(caller, order.method)
        asked = [name for name in self._names if order.leader in ("", name)]
        return LeaderAnswers(tuple(self._ask(name, order) for name in asked))

    def _ask(self, name: str, order: AskLeaders) -> LeaderAnswer:
        try:
            answer = self._endpoint.call(name, order.method, order.body, order.wait_s)
        except RunError as error:
            return LeaderAnswer(name, error=error.message)
        return LeaderAnswer(name, answer)
