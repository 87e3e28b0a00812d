"""Which request may start, and which replica serves it; the same for simulation and leader."""

from __future__ import annotations

from collections.abc import Sequence

from partita.execution.events import Route
from partita.program import share_order


class Admission:
    """Counts requests in flight and chooses routes.

    A replicated stage with shares keeps to :func:`~partita.program.share_order`, whatever was
    answered: the route of a request follows from its number alone. One without takes the
    alternative with the fewest unanswered requests, the first of those that are equal.

    Args:
        routes: Number of alternatives of each replicated stage, as in ``Program.routes``.
        in_flight: Most requests admitted and not answered.
        shares: As in ``Program.shares``.
    """

    def __init__(
        self, routes: Sequence[int], in_flight: int, shares: Sequence[tuple[int, ...]] = ()
    ) -> None:
        self._orders = [
            share_order(given) if given else () for given in shares or ((),) * len(routes)
        ]
        self._outstanding = [[0] * alternatives for alternatives in routes]
        self._in_flight = in_flight
        self._open: dict[int, Route] = {}
        self._next = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may be admitted now."""
        return len(self._open) < self._in_flight

    def admit(self) -> tuple[int, Route]:
        """The number and the route of the next request.

        Raises:
            ValueError: As many requests as allowed are in flight.
        """
        if not self.has_room:
            raise ValueError(f"{self._in_flight} requests are in flight; no more are allowed")
        request = self._next
        route = tuple(
            order[request % len(order)] if order else counts.index(min(counts))
            for order, counts in zip(self._orders, self._outstanding, strict=True)
        )
        for counts, alternative in zip(self._outstanding, route, strict=True):
            counts[alternative] += 1
        self._next += 1
        self._open[request] = route
        return request, route

    def finish(self, request: int) -> None:
        """Note that ``request`` was answered.

        Raises:
            ValueError: The request is not in flight.
        """
        route = self._open.pop(request, None)
        if route is None:
            raise ValueError(f"request {request} is not in flight")
        for counts, alternative in zip(self._outstanding, route, strict=True):
            counts[alternative] -= 1
