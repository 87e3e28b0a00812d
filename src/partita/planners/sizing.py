"""How many boards of a kind a wish takes: the smallest number whose plan fulfils it.

Each number is planned for anew, so that memory, links and what cannot be divided count. More boards
of a kind never hurt a plan that may leave them idle, so that numbers are doubled until one fulfils
the wish, then halved towards the smallest; a search that misses a plan can make it one too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InfeasibleError
from partita.execution import Link
from partita.planners.find import find_plan
from partita.planners.options import Objective, PlanOptions, limit_only
from partita.planners.result import Result

#: Most boards that are tried.
MOST_BOARDS = 64
#: Requests in flight per board where answers per second count and no number is given.
_IN_FLIGHT = 2


@dataclass(frozen=True)
class Wish:
    """What a plan shall reach; one of the two.

    Attributes:
        per_second: Answers per second.
        latency_s: Seconds of one request.
    """

    per_second: float | None = None
    latency_s: float | None = None

    @property
    def objective(self) -> Objective:
        """What to plan for."""
        return "latency" if self.per_second is None else "throughput"

    def is_met(self, result: Result) -> bool:
        """Whether a plan fulfils the wish."""
        if self.per_second is not None:
            return result.estimate.images_per_second >= self.per_second
        return result.latency_s <= (self.latency_s or 0.0)


@dataclass(frozen=True)
class Sized:
    """A kind of boards, and how many of them fulfil the wish.

    Attributes:
        kind: As in the catalogue, or the name of the device that stands for it.
        count: The smallest number; the largest that was tried where none does.
        cost: Of the cluster with so many.
        result: The plan; None where there is none for any number.
        is_met: Whether it fulfils the wish.
    """

    kind: str
    count: int
    cost: CostModel
    result: Result | None
    is_met: bool


def size_clusters(
    cost: CostModel,
    wish: Wish,
    planner: str = "best",
    options: PlanOptions | None = None,
    *,
    in_flight: int | None = None,
    most: int = MOST_BOARDS,
    progress: Callable[[str, int], None] = lambda kind, count: None,
) -> Iterator[Sized]:
    """Yield for each kind on offer the smallest number of boards that fulfils a wish.

    Args:
        cost: Its cluster is the offer: one board of each kind stands for as many as are needed, its
            link to the requester for all their links. The requester counts as a board of its own
            kind where it computes, and computes nothing where others are asked for.
        options: Their objective is the wish's, their budget the most of each search.
        in_flight: Requests under way; None for one where the latency counts, else two per board.
        most: Most boards that are tried.
        progress: Called with the kind and the number before each search.

    Raises:
        PlanError: The planner is unknown or an option is wrong.
    """
    options = limit_only(replace(options or PlanOptions(), objective=wish.objective))
    for kind, board in offered(cost.cluster).items():
        trials = _Trials(cost, board, wish, _Search(planner, options, in_flight))

        def attempt(count: int, kind: str = kind, trials: _Trials = trials) -> bool:
            progress(kind, count)
            return trials.is_met(count)

        count = _smallest(attempt, most)
        yield Sized(kind, *trials.get(count or trials.nearest(most)), is_met=count is not None)


class _Search(NamedTuple):
    """How plans are searched for."""

    planner: str
    options: PlanOptions
    in_flight: int | None


class _Trials:
    """Plans for numbers of one kind of boards."""

    def __init__(self, cost: CostModel, board: Device, wish: Wish, search: _Search) -> None:
        self._cost, self._board, self._wish, self._search = cost, board, wish, search
        self._known: dict[int, tuple[CostModel, Result | None]] = {}

    def is_met(self, count: int) -> bool:
        """Whether so many boards fulfil the wish."""
        model, result = _model(self._cost, self._board, count), None
        usual = 1 if self._wish.per_second is None else _IN_FLIGHT * count
        options = replace(self._search.options, in_flight=self._search.in_flight or usual)
        with suppress(InfeasibleError):
            result = find_plan(model, planner=self._search.planner, options=options)
        self._known[count] = model, result
        return result is not None and self._wish.is_met(result)

    def nearest(self, most: int) -> int:
        """The number that came nearest to the wish."""
        reached = {
            n: result.latency_s if self._wish.per_second is None else result.estimate.period_s
            for n, (_, result) in self._known.items()
            if result is not None
        }
        return min(reached, key=lambda n: reached[n], default=most)

    def get(self, count: int) -> tuple[int, CostModel, Result | None]:
        """A number that was tried, with its cost model and plan."""
        return count, *self._known[count]


def offered(cluster: Cluster) -> Mapping[str, Device]:
    """One board of each kind that computes; one with a profile of its own is its own kind."""
    boards: dict[str, Device] = {}
    for name in cluster.providers:
        device = cluster.device(name)
        boards.setdefault(device.name if device.profile else device.kind, device)
    return boards


def _smallest(attempt: Callable[[int], bool], most: int) -> int | None:
    """The smallest number up to ``most`` that succeeds, if those above it do, too."""
    low, high = 0, 1
    while not attempt(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if attempt(middle) else (middle, high)
    return high


def _model(cost: CostModel, board: Device, count: int) -> CostModel:
    """The cost model of the requester with so many boards like one."""
    cluster = cost.cluster
    home = cluster.device(cluster.requester)
    is_board = home.computes and home.kind == board.kind and home.profile == board.profile
    names = [f"{board.name}-{number}" for number in range(1, count + (not is_board))]
    boards = [replace(board, name=name, address=None) for name in names]
    devices = (replace(home, computes=is_board), *boards)
    links = tuple(_links(cluster, home.name, board.name, names))
    profiles = cost.profiles
    if isinstance(profiles, Mapping) and board.name in profiles:
        profiles = {**profiles, **dict.fromkeys(names, profiles[board.name])}
    return CostModel(
        cost.graph,
        replace(cluster, devices=devices, links=links),
        estimator=cost.estimator,
        profiles=profiles,
        options=cost.options,
    )


def _links(cluster: Cluster, home: str, board: str, names: list[str]) -> Iterator[Link]:
    """Yield links between all, each like one of the board's."""
    there = _find_link(cluster, home, board)
    back = _find_link(cluster, board, home)
    for name in names:
        if there is not None:
            yield replace(there, source=home, target=name)
        if back is not None:
            yield replace(back, source=name, target=home)
        between = back or there
        for other in names:
            if other != name and between is not None:
                yield replace(between, source=name, target=other)


def _find_link(cluster: Cluster, source: str, target: str) -> Link | None:
    """The link that stands for others; where one device is both ends, any that leaves it."""
    if source != target:
        return cluster.link(source, target)
    return next((link for link in cluster.links if link.source == source), None)
