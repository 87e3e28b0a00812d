"""Calls that wait for an answer, by who is asked: they end when that one is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zenoh

from partita.fabric.base import closed


class PendingCalls:
    """What ends the calls of an endpoint that are under way.

    Args:
        name: Of the endpoint, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._tokens: dict[str, set[Any]] = {}
        self._is_closed = False

    @contextmanager
    def one(self, target: str) -> Iterator[Any]:
        """The token that cancels a call to a target, while that goes on.

        Raises:
            RunError: The endpoint is closed.
        """
        token = zenoh.CancellationToken()
        with self._lock:
            if self._is_closed:
                raise closed(self._name)
            self._tokens.setdefault(target, set()).add(token)
        try:
            yield token
        finally:
            with self._lock:
                self._tokens[target].discard(token)
                if not self._tokens[target]:
                    del self._tokens[target]

    def abandon(self, target: str) -> None:
        """End the calls to a target."""
        with self._lock:
            tokens = list(self._tokens.get(target, ()))
        for token in tokens:
            token.cancel()

    def close(self) -> None:
        """End all calls; there are no more."""
        with self._lock:
            self._is_closed = True
            targets = list(self._tokens)
        for target in targets:
            self.abandon(target)
