"""Search on the best two devices, the best three, and so on: each starts from the plans before.

What is searched on the first devices of the order does not depend on those that follow, nor on the
number of evaluations: a longer list of devices or a larger budget continues the same search. So
one more evaluation never gives a worse plan, nor does one more device at the end of the order or
axes beyond rows. A device in the middle, or a faster one, begins another search from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from math import inf

from partita.errors import PlanError
from partita.planners.bounds.least_memory import lacks_memory
from partita.planners.drafts.draft import Draft, DraftAxis, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.beam_search import BeamSearch, shape_of
from partita.planners.search.device_moves import join_device
from partita.planners.search.input_splits import InputSplits
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.memory_starts import memory_starts
from partita.planners.search.moves import Moves
from partita.planners.search.nearness import is_at
from partita.planners.search.overlapped import edge_moves, overlapped_draft
from partita.planners.search.stage_ends import StageEnds
from partita.planners.simple.rows import device_speeds, divide_rows
from partita.planners.simple.single import single_drafts

#: Numbers of devices up to which each is searched; beyond, each is about a quarter above the last.
_EACH, _GROWTH = 16, 1.25
#: Evaluations of one search, by the number of devices up to which they hold. Tuned on VGG-16 with 4
#: and 16 devices and chains 1, 3, 5 and 6 of benchmarks.nested: with less, ResNet-50 on 6 devices
#: is planned worse; with more, planning VGG-16 on 16 devices takes longer than half a minute.
_EFFORTS = ((2, 600), (3, 1200), (4, 1200), (8, 800), (16, 400))
_EFFORT_BEYOND = 300
#: What is searched before other axes are.
_ROWS = ("rows",)
#: Of them: for the beam, for each round of halving, for climbing, for restarts.
_BEAM, _HALVING, _CLIMB, _RESTARTS = 0.2, 0.1, 0.6, 0.2
#: Numbers of devices at which the beam is run: along rows alone, and along more axes.
#: Costly, but without it VGG-16 on 16 devices is a fifth slower.
_ROWS_SWEPT, _SWEPT = (3, 6, 12, 31), (2, 3, 4, 8, 16, 31, 58)
#: Evaluations of the first look, which comes before all full searches.
_LOOK = 40
#: Starts whose rows are moved: on few devices, where a round costs little, and on many.
_FEW_DEVICES = 4
_MOST_STARTS, _FEW_STARTS = 20, 12
#: Drafts that go on to the next number of devices, and that are perturbed in the end.
_MOST_ELITE = 4
#: Drafts of the beam that are kept.
_MOST_SWEPT = 60


@dataclass
class _Level:
    """The search on some first devices of the order, along some axes.

    Attributes:
        evaluator: The evaluator of those devices alone.
        axes: Along which stages may be divided; all when None.
        new: Devices that the level on fewer devices does not have.
        before: Levels on fewer devices or along fewer axes, which end before this one begins.
        drafts: The drafts to start from, in the end the best first.
    """

    evaluator: Evaluator
    axes: Sequence[str] | None
    new: tuple[str, ...]
    before: list[_Level]
    drafts: list[Draft] = field(default_factory=list)

    def starts(self) -> list[Draft]:
        """What is known from here and from before, also with the new devices."""
        known = [draft for level in self.before for draft in level.drafts[:_MOST_ELITE]]
        joined = [reduce(join_device, self.new, draft) for draft in known]
        return [*self.drafts, *known, *joined]

    def rank(self, drafts: Iterable[Draft]) -> list[Draft]:
        """Different allowed drafts, the best first."""
        allowed = (draft for draft in drafts if draft and is_allowed(draft, self.axes))
        return self.evaluator.rank(allowed)

    def fits(self, drafts: Iterable[Draft]) -> bool:
        """Whether one of the drafts is possible, memory counted."""
        allowed = (draft for draft in drafts if draft and is_allowed(draft, self.axes))
        return any(self.evaluator.score(draft)[0] < inf for draft in allowed)


class NestedSearch:
    """Searches on ever more devices, first with a look at each, then in full.

    Args:
        others: More drafts to start from where all devices take part.
        bound: What no plan's objective is below; 0 where that is not known.
    """

    def __init__(self, evaluator: Evaluator, others: Sequence[Draft], bound: float = 0.0) -> None:
        self._evaluator = evaluator
        self._others = others
        self._bound = bound
        order = self._order()
        self._levels: list[_Level] = []
        fewer: list[_Level] = []
        reached = 0
        for size in _sizes(len(order)):
            among = evaluator.among(order[:size])
            new, reached = tuple(order[reached:size]), size
            levels: list[_Level] = []
            for axes in _widened(evaluator.options.axes):
                before = [*fewer[len(levels) : len(levels) + 1], *levels]
                levels.append(_Level(among, axes, new, before))
            self._levels += levels
            fewer = levels

    def run(self) -> list[Draft]:
        """The best drafts of all levels, the best first."""
        for search in (self._look, self._search):
            for level in self._levels:
                if self._is_over:
                    break
                search(level)
        drafts = (draft for level in self._levels for draft in level.drafts[:_MOST_ELITE])
        overlapped = (draft for level in self._levels for draft in level.rank(_overlapped(level)))
        found = [*drafts, *overlapped]
        found += (draft for level in self._levels for draft in level.rank(self._summed(level)))
        return self._evaluator.rank(found)

    @property
    def _is_over(self) -> bool:
        """Whether nothing is left to spend, or nothing to gain."""
        if self._evaluator.budget.is_spent:
            return True
        best = (draft for level in self._levels for draft in level.drafts[:1])
        return any(is_at(self._bound, self._evaluator, draft) for draft in best)

    def _order(self) -> list[str]:
        """The devices in the order in which they join: who alone answers soonest first."""
        evaluator = self._evaluator
        alone = dict(
            zip(evaluator.devices, map(evaluator.score, single_drafts(evaluator)), strict=True)
        )
        speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
        return sorted(evaluator.devices, key=lambda device: (alone[device], -speeds[device]))

    def _look(self, level: _Level) -> None:
        """Move the rows of the simplest starts."""
        if level.before and level.before[-1].evaluator is level.evaluator:
            return  # the same devices along fewer axes: nothing new to look at
        count = len(level.evaluator.devices)
        simple = _starts(level.evaluator) if count <= _EACH or count in _ROWS_SWEPT else ()
        level.drafts = level.rank([*level.starts(), *simple])
        if not level.fits(level.drafts[:1]):
            return  # the search is for what fits, and has more ways
        best = self._local_search(level).successive_halving(level.drafts[:_MOST_ELITE], _LOOK, 1)
        level.drafts = level.rank([*best, *level.drafts])

    def _search(self, level: _Level) -> None:
        """Sweep over the layers, move rows of the best starts, climb and restart."""
        count = len(level.evaluator.devices)
        effort = next((e for most, e in _EFFORTS if count <= most), _EFFORT_BEYOND)
        starts = level.starts()
        if level.evaluator.devices == self._evaluator.devices:
            starts += self._others
        search = self._local_search(level)
        if not level.fits(starts):
            level.drafts = starts = _fitted(level, search, starts, int(_CLIMB * effort))
            if not level.fits(starts):
                return
        if count in (_ROWS_SWEPT if level.axes == _ROWS else _SWEPT):
            starts += _swept(level, int(_BEAM * effort))
        starts = level.rank(starts)
        most = _MOST_STARTS if count <= _FEW_DEVICES else _FEW_STARTS
        elite = search.successive_halving(
            _different(starts)[:most], int(_HALVING * effort), _MOST_ELITE
        )
        climbed: list[Draft] = []
        end = search.tried + int(_CLIMB * effort)
        for draft in elite:
            if search.tried < end:
                climbed.append(search.climb(draft, end - search.tried))
        elite = level.rank([*climbed, *elite, *starts[:1]])[:_MOST_ELITE]
        level.drafts = level.rank(search.iterate_restarts(elite, int(_RESTARTS * effort)))

    def _local_search(self, level: _Level) -> LocalSearch:
        return LocalSearch(level.evaluator, _moves(level))

    def _summed(self, level: _Level) -> Iterator[Draft]:
        """Yield drafts with sums over parts of inputs, made at the end as those of `_overlapped`.

        From each level's own, so that more devices still never give a worse plan.
        """
        is_few = len(level.evaluator.devices) <= _EACH and not self._is_over
        if is_few and (level.axes is None or "input_channels" in level.axes):
            splits = InputSplits(level.evaluator, self._local_search(level), _moves(level))
            for draft in level.drafts[:1]:
                yield from splits.improve(draft)


def _moves(level: _Level) -> Moves:
    evaluator = level.evaluator
    return Moves(evaluator.outline, evaluator.devices, device_speeds(evaluator), level.axes)


def _fitted(level: _Level, search: LocalSearch, starts: list[Draft], most: int) -> list[Draft]:
    """Drafts where none of the starts fits in memory: the best fits, if one is found.

    Args:
        most: Drafts to try.
    """
    if lacks_memory(level.evaluator, level.axes):
        return level.rank(starts)
    starts = level.rank([*starts, *memory_starts(level.evaluator)])
    if starts and not level.fits(starts[:1]):
        starts = level.rank([search.climb(starts[0], most), *starts])
    return starts


def _widened(axes: Sequence[str] | None) -> list[Sequence[str] | None]:
    """The axes searched one list after the other, each within the next.

    Whoever allows more axes than rows gets at least the plan of rows alone.
    """
    if axes is not None and (tuple(axes) == _ROWS or not {"rows", "tiles"} & set(axes)):
        return [axes]
    return [_ROWS, axes]


def _overlapped(level: _Level) -> Iterator[Draft]:
    """Yield drafts whose halos travel while their devices compute: few, as they are slow to price.

    All are made at the end of the search, from each level alone, so that more devices still never
    give a worse plan. Of more than 16 devices none gained on ResNet-50, and took ten seconds.
    """
    if len(level.evaluator.devices) > _EACH or level.evaluator.budget.is_over:
        return
    axis: DraftAxis = "rows" if level.axes == _ROWS else "tiles"
    for draft in (*level.drafts[:1], overlapped_draft(level.evaluator, axis)):
        if not level.evaluator.budget.is_over:
            yield from edge_moves(draft)


def _swept(level: _Level, most: int) -> list[Draft]:
    """The best drafts of a beam search, where drafts are priced without programs."""
    pricer = level.evaluator.pricer
    if pricer is None or level.evaluator.options.objective != "latency":
        return []
    return _different(BeamSearch(level.evaluator, pricer, level.axes).run(most))[:_MOST_SWEPT]


def _sizes(devices: int) -> Iterator[int]:
    """Yield how many devices take part, from one to all.

    >>> list(_sizes(5)), list(_sizes(40))[15:]
    ([1, 2, 3, 4, 5], [16, 20, 25, 31, 38, 40])
    """
    size = 1
    while size < devices:
        yield size
        size = size + 1 if size < _EACH else int(size * _GROWTH)
    yield devices


def _starts(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield simple plans of the evaluator's devices."""
    yield from single_drafts(evaluator)
    speeds = device_speeds(evaluator)
    if len(speeds) < 2:
        return
    with suppress(PlanError):
        yield divide_rows(evaluator, speeds)
    ends = StageEnds(evaluator, evaluator.devices, speeds)
    fastest = max(zip(speeds, evaluator.devices, strict=True), key=lambda pair: pair[0])[1]
    for tail_device in dict.fromkeys((fastest, evaluator.requester)):
        if tail_device in evaluator.devices:
            yield ends.draft(tail_device)


def _different(drafts: Sequence[Draft]) -> list[Draft]:
    """The first draft of each way to cut the network and to divide its stages."""
    first: dict[object, Draft] = {}
    for draft in drafts:
        shape = shape_of(draft)
        rows = tuple(part for part in shape if part[2] in ("rows", "tiles"))
        first.setdefault((rows, len(rows) < len(shape)), draft)
    return list(first.values())
