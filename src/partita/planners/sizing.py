"""How many boards of a kind a wish takes: the smallest number whose plan fulfils it.

Each number is planned for anew, so that memory, links and what cannot be divided count. More boards
of a kind never hurt a plan that may leave them idle, so that numbers are doubled until one fulfils
the wish, then halved towards the smallest; a search that misses a plan can make it one too many.

All searches share one time: each gets an equal part of what is left for those that may still come,
so that what small numbers do not need is there for large ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from partita.cluster import Cluster, Device, copy_device
from partita.cost import CostModel, grow_cost
from partita.errors import InfeasibleError, UnfinishedError
from partita.planners.bounds.gateway import narrowest_gateway
from partita.planners.bounds.minimum_costs import MinimumCosts
from partita.planners.bounds.shares import SAFE
from partita.planners.find import find_plan
from partita.planners.options import Objective, PlanOptions, limit_only
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.wire_formats import allow_formats
from partita.planners.result import Result
from partita.units import format_bandwidth, format_seconds

#: Most boards that are tried.
MOST_BOARDS = 64
#: Seconds of all searches together where the options name no budget. Not tuned.
MOST_S = 300.0
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

    @property
    def most_s(self) -> float:
        """The most seconds that fulfil it: of one request, or per answer."""
        return (self.latency_s or 0.0) if self.per_second is None else 1 / self.per_second

    def is_met(self, result: Result) -> bool:
        """Whether a plan fulfils the wish."""
        if self.per_second is not None:
            return result.estimate.images_per_second >= self.per_second
        return result.latency_s <= self.most_s


@dataclass(frozen=True)
class Sized:
    """A kind of boards, and how many of them fulfil the wish.

    Attributes:
        kind: As in the catalogue, or the name of the device that stands for it.
        count: The smallest number; the largest that was tried where none does.
        cost: Of the cluster with so many.
        result: The plan; None where there is none for any number, or none was looked for.
        is_met: Whether it fulfils the wish.
        untried: Numbers that may do and that no time was left for: smaller ones where ``count``
            does, else larger ones.
        limit: What proves that no number does, in a sentence: then none is tried.
        fault: Why the largest number that was tried has no plan; None where it has one.
        was_cut: Whether time ended a search that found nothing, or not enough.
        is_least: Whether it is proven that fewer do not fulfil the wish.
    """

    kind: str
    count: int
    cost: CostModel
    result: Result | None
    is_met: bool
    untried: range = range(0)
    limit: str = ""
    fault: InfeasibleError | None = None
    was_cut: bool = False
    is_least: bool = False


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
        options: Their objective is the wish's, their budget that of all searches together,
            :data:`MOST_S` where they have none. One number of each kind is always tried.
        in_flight: Requests under way; None for one where the latency counts, else two per board.
        most: Most boards that are tried.
        progress: Called with the kind and the number before each search.

    Raises:
        PlanError: The planner is unknown or an option is wrong.
    """
    options = replace(options or PlanOptions(), objective=wish.objective)
    boards = offered(cost.cluster)
    clock = _Clock(MOST_S if options.budget_s is None else options.budget_s)
    search = _Search(planner, limit_only(options), in_flight)
    for place, (kind, board) in enumerate(boards.items(), 1):
        trials = _Trials(cost, board, wish, search)
        if limit := _limit(kind, trials.model(1), wish, search.options, most):
            yield Sized(kind, most, trials.model(most), None, False, limit=limit)
            continue
        later = (len(boards) - place) * _most_attempts(most)

        def attempt(
            count: int,
            left: int,
            kind: str = kind,
            trials: _Trials = trials,
            later: int = later,
        ) -> bool | None:
            if trials.are_begun and clock.left_s <= 0:
                return None
            progress(kind, count)
            return trials.is_met(count, clock.left_s / (left + later))

        yield trials.sized(kind, *_smallest(attempt, most), most)


class _Clock:
    """Time that ends.

    Args:
        most_s: Seconds from now on.
    """

    def __init__(self, most_s: float) -> None:
        self._end_s = time.monotonic() + most_s

    @property
    def left_s(self) -> float:
        """Seconds until the end; less than nothing afterwards."""
        return self._end_s - time.monotonic()


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
        self._faults: dict[int, InfeasibleError] = {}
        #: Numbers of which it is proven that they do not fulfil the wish.
        self._ruled_out: set[int] = set()
        #: Whether time ended a search that did not fulfil the wish.
        self.was_cut = False

    @property
    def are_begun(self) -> bool:
        """Whether a number was tried."""
        return bool(self._known)

    def is_met(self, count: int, most_s: float) -> bool:
        """Whether so many boards fulfil the wish, by a search of at most some seconds."""
        model, result = self.model(count), None
        usual = 1 if self._wish.per_second is None else _IN_FLIGHT * count
        options = self._search.options
        options = replace(
            options,
            in_flight=self._search.in_flight or usual,
            most_s=max(0.0, min(most_s, options.most_s)),
        )
        try:
            result = find_plan(model, planner=self._search.planner, options=options)
        except InfeasibleError as error:
            self._faults[count] = error
        self._known[count] = model, result
        if self._is_ruled_out(count):
            self._ruled_out.add(count)
        is_met = result is not None and self._wish.is_met(result)
        is_cut = result.status == "cut short" if result else self._is_unfinished(count)
        self.was_cut |= is_cut and not is_met
        return is_met

    def _is_ruled_out(self, count: int) -> bool:
        """Whether no plan for so many boards can fulfil the wish."""
        _, result = self._known[count]
        if result is None:
            return self._faults[count].is_proven
        is_latency = self._wish.per_second is None
        least_s = result.lower_bound_s if is_latency else result.least_period_s
        return least_s is not None and least_s > self._wish.most_s

    def _is_unfinished(self, count: int) -> bool:
        return isinstance(self._faults[count], UnfinishedError)

    def model(self, count: int) -> CostModel:
        """The cost model of the requester with so many boards."""
        return _model(self._cost, self._board, count)

    def sized(self, kind: str, low: int, high: int | None, most: int) -> Sized:
        """What came of all trials.

        Args:
            low: The largest number that failed.
            high: The smallest that did not, if any.
            most: The largest that may be tried.
        """
        count = self._nearest() if high is None else high
        untried = range(low + 1, most + 1 if high is None else high)
        cost, result = self._known[count]
        fault = self._faults.get(max(self._known))
        is_least = low + 1 == high and (not low or low in self._ruled_out)
        done = (high is not None, untried, "", fault, self.was_cut, is_least)
        return Sized(kind, count, cost, result, *done)

    def _nearest(self) -> int:
        """The number that came nearest to the wish; the largest tried where none has a plan."""
        reached = {
            n: result.latency_s if self._wish.per_second is None else result.estimate.period_s
            for n, (_, result) in self._known.items()
            if result is not None
        }
        return min(reached, key=lambda n: reached[n], default=max(self._known))


def _limit(kind: str, one: CostModel, wish: Wish, options: PlanOptions, most: int) -> str:
    """What proves that no number of boards fulfils a wish, in a sentence; empty where nothing does.

    Args:
        one: Of the cluster with one of them.
    """
    evaluator = Evaluator(one, allow_formats(one.graph, options))
    try:
        gateway = narrowest_gateway(evaluator)
        if gateway is not None and gateway.seconds > wish.most_s:
            return (
                f"what each request sends and gets takes {format_seconds(gateway.seconds)} at"
                f" {gateway.name} of {format_bandwidth(gateway.bytes_per_s)}, which lets at most"
                f" {1 / gateway.seconds:.3g} per second through"
            )
        least_s = evaluator.remember(MinimumCosts).shared_s() * SAFE / most
        if wish.per_second is not None and least_s > wish.most_s:
            return f"{most} x '{kind}' compute at most {1 / least_s:.3g} per second"
        return ""
    finally:
        evaluator.close()


def offered(cluster: Cluster) -> Mapping[str, Device]:
    """One board of each kind that computes; one that is unlike another of its kind is its own.

    So is one whose kind is another device's name.
    """
    boards: dict[str, Device] = {}
    devices = [cluster.device(name) for name in cluster.providers]
    for device in devices:
        others = [d for d in devices if d.kind == device.kind and not d.profile]
        is_unlike = any(_nameless(d) != _nameless(device) for d in others)
        is_own = device.profile or is_unlike or device.kind in cluster.names
        boards.setdefault(device.name if is_own else device.kind, device)
    return boards


def _nameless(device: Device) -> Device:
    return replace(device, name="", address=None)


def _most_attempts(most: int) -> int:
    """Most attempts of :func:`_smallest`.

    >>> [_most_attempts(most) for most in (1, 2, 64)]
    [1, 2, 12]
    """
    doublings = (most - 1).bit_length()
    return 1 + doublings + max(0, doublings - 1)


def _smallest(attempt: Callable[[int, int], bool | None], most: int) -> tuple[int, int | None]:
    """The smallest number up to ``most`` that succeeds, if those above it do, too.

    Args:
        attempt: Called with a number and how many attempts may still be made, this one counted;
            None where it is not made, which ends the search.
        most: The largest number.

    Returns:
        The largest number that failed, 0 if none, and the smallest that succeeded, if any: one
        above it, unless attempts were not made.
    """
    low, high, left = 0, 1, _most_attempts(most)
    while not (is_met := attempt(high, left)):
        if is_met is None:
            return low, None
        left -= 1
        low, high = high, min(2 * high, most)
        if low == high:
            return low, None
    while high - low > 1:
        middle = (low + high) // 2
        is_met = attempt(middle, (high - low - 1).bit_length())
        if is_met is None:
            break
        low, high = (low, middle) if is_met else (middle, high)
    return low, high


def _model(cost: CostModel, board: Device, count: int) -> CostModel:
    """The cost model of the requester with so many boards like one."""
    cluster = cost.cluster
    home = cluster.device(cluster.requester)
    is_board = home.computes and home.kind == board.kind and home.profile == board.profile
    names = [f"{board.name}-{number}" for number in range(1, count + (not is_board))]
    others = [name for name in cluster.names if name != home.name]
    grown = copy_device(cluster, board.name, names).without(*others)
    devices = (replace(home, computes=is_board), *grown.devices[1:])
    return grow_cost(cost, replace(grown, devices=devices), dict.fromkeys(names, board.name))
