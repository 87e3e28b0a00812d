"""Calls that wait for an answer."""

from __future__ import annotations

import pytest

from partita.errors import RunError
from partita.fabric.pending_calls import PendingCalls


def test_calls_to_one_that_is_gone_end_and_others_go_on() -> None:
    """Nothing is left of those that are over: callers' names may be drawn."""
    pending = PendingCalls("a")
    with pending.one("b") as to_b, pending.one("c") as to_c:
        pending.abandon("b")
        pending.abandon("nobody")
        assert (to_b.is_cancelled, to_c.is_cancelled) == (True, False)
    assert pending._tokens == {}


def test_the_end_of_an_endpoint_ends_its_calls() -> None:
    """Those under way, to whomever; there are no later ones."""
    pending = PendingCalls("a")
    with pending.one("b") as to_b, pending.one("c") as to_c:
        pending.close()
        assert to_b.is_cancelled
        assert to_c.is_cancelled
    with pytest.raises(RunError, match="'a' is closed"), pending.one("b"):
        pass
