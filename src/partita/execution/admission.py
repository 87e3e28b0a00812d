"""Which request may start, and which replica serves it; the same for simulation and leader."""

from __future__ import annotations

from collections.abc import Sequence

from partita.execution.events import Route
from partita.program import most_unanswered, share_order


class Admission:
    """Counts requests in flight and chooses routes.

    A replicated stage with shares keeps to :func:`~partita.program.share_order`: while its replicas
    keep up, the route of a request follows from its number alone. One that is behind (it has as
    many unanswered as :func:`~partita.program.most_unanswered` allows) passes its turn to the next
    in the order, so that a device slower than was planned for does not hold up the others. A stage
    without shares takes the alternative with the fewest unanswered requests, the first of those
    that are equal.

    Args:
        routes: Number of alternatives of each replicated stage, as in ``Program.routes``.
        in_flight: Most requests admitted and not answered, as in ``Program.in_flight``.
        shares: As in ``Program.shares``.
        limit: Where the caller has another number in flight; who is behind does not depend on less.
    """

    def __init__(
        self,
        routes: Sequence[int],
        in_flight: int,
        shares: Sequence[tuple[int, ...]] = (),
        *,
        limit: int | None = None,
    ) -> None:
        most = max(in_flight, limit or in_flight)
        self._stages = [
            _Replicas(alternatives, most, given)
            for alternatives, given in zip(routes, shares or ((),) * len(routes), strict=True)
        ]
        self._limit = limit or in_flight
        self._open: dict[int, Route] = {}
        self._next = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may be admitted now."""
        return len(self._open) < self._limit

    def admit(self) -> tuple[int, Route]:
        """The number and the route of the next request.

        Raises:
            ValueError: As many requests as allowed are in flight.
        """
        if not self.has_room:
            raise ValueError(f"{self._limit} requests are in flight; no more are allowed")
        request = self._next
        self._next += 1
        route = tuple(stage.admit(request) for stage in self._stages)
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
        for stage, alternative in zip(self._stages, route, strict=True):
            stage.outstanding[alternative] -= 1


class _Replicas:
    """The alternatives of one replicated stage.

    Attributes:
        outstanding: Per alternative, its unanswered requests.
    """

    def __init__(self, alternatives: int, in_flight: int, shares: tuple[int, ...]) -> None:
        self.outstanding = [0] * alternatives
        self._order = share_order(shares) if shares else ()
        self._most = most_unanswered(alternatives, in_flight, shares)

    def admit(self, request: int) -> int:
        """The alternative that a request takes."""
        outstanding, order, most = self.outstanding, self._order, self._most
        if order:
            turns = (order[n % len(order)] for n in range(request, request + len(order)))
            chosen = next(one for one in turns if outstanding[one] < most[one])
        else:
            chosen = outstanding.index(min(outstanding))
        outstanding[chosen] += 1
        return chosen
