"""What is done with time that is left: moves mended one by one, then restarts from kicked plans.

First every move of the best plan, edges of single stages among them, is mended in its rows. Then
comes iterated local search over a few different plans. A kick changes more than local search can
undo: several stages, a window of them made anew, who takes part, or the ends of two plans
exchanged. What comes of it is mended in its rows, climbed where that is promising, and kept where
it is better than a plan kept before. A seed gives the same kicks; only the clock decides how many.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf

from partita.planners.drafts.draft import Draft, DraftStage, is_allowed, share_cuts, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.beam_search import shape_of
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves, prune
from partita.planners.search.nearness import is_at
from partita.planners.search.overlapped import stage_edges
from partita.planners.simple.rows import device_speeds

#: Different plans that are kept.
_MOST_KEPT = 8
#: How often the best is kicked rather than any that is kept.
_FROM_BEST = 0.5
#: Drafts for moving the rows of a kicked plan, and for climbing. Not tuned.
_MENDING, _CLIMBING = 150, 1500
#: A mended plan this much worse than the one that was kicked is climbed still.
_PROMISING = 1.03
#: One this much worse before its rows are moved is given up. Not tuned.
_HOPELESS = 1.5
#: Moves whose rows are moved, and how much worse they may be before: MobileNet-v2 on six unequal
#: devices becomes 1 % faster by the seventeenth, VGG-16 on four 3 % by an edge.
_MOST_MENDED, _REACH = 60, 1.15
#: Most stages that a kick changes, and parts that a window is made of.
_MOST_CHANGED, _MOST_WINDOW, _MOST_PARTS = 4, 6, 3
#: The part of the time after which a plan that is to be made simpler or lossy is not searched for.
_UNTIL_LATER = 0.75
#: Drafts after which what is known of them is forgotten: they take some 10 kB each.
_MOST_TRIED = 20_000
#: Changes in a row that come to nothing new, after which nothing more is expected. Not tuned.
_STALE = 1000
#: Drafts that are remembered for that: some 20 MB.
_MOST_SEEN = 200_000


def is_done(evaluator: Evaluator) -> bool:
    """Whether the evaluations are spent, or the time, but for what is done with the plan later."""
    budget, options = evaluator.budget, evaluator.options
    needs_later = options.simple or options.compress is not None
    return budget.is_spent or (needs_later and budget.spent_share >= _UNTIL_LATER)


class Novelty:
    """Whether random changes still come to new drafts; of a small network there are few."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._stale = 0

    @property
    def is_over(self) -> bool:
        """Whether none of many in a row was new."""
        return self._stale >= _STALE

    def note(self, draft: Draft) -> bool:
        """Remember a draft by its hash; whether it is new."""
        seen = hash(draft)
        is_new = seen not in self._seen
        self._seen.add(seen)
        self._stale = 0 if is_new else self._stale + 1
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        return is_new


class FurtherSearch:
    """Kicks plans and climbs again.

    Args:
        evaluator: Prices drafts; its budget ends the search.
        drafts: To begin with, the best first.
        bound: What no plan's objective is below.
    """

    def __init__(self, evaluator: Evaluator, drafts: Sequence[Draft], bound: float) -> None:
        self._evaluator = evaluator
        self._axes = evaluator.options.axes
        self._outline = evaluator.outline
        self._speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
        self._ranked = sorted(evaluator.devices, key=lambda device: -self._speeds[device])
        self._moves = Moves(
            evaluator.outline, evaluator.devices, list(self._speeds.values()), self._axes
        )
        self._search = LocalSearch(evaluator, self._moves)
        self._random = random.Random(evaluator.options.seed)
        self._bound = bound
        self._kept: list[Draft] = []
        self._novelty = Novelty()
        for draft in drafts:
            self._keep(draft)
        self._kicks: tuple[Callable[[Draft], Draft], ...] = (
            self._change_several,
            self._make_window_anew,
            self._leave_out_devices,
            self._exchange_ends,
        )

    def run(self) -> list[Draft]:
        """The plans that are kept, the best first."""
        for draft in self._kept[:2]:
            if not self._is_over:
                self._keep(self._search.climb(draft, _CLIMBING))
        while self._kept and not self._is_over:
            better = self._mend_moves(self._kept[0])
            if not better:
                break
            self._keep(better)
        while self._kept and not self._is_over:
            self._kick()
            if self._search.tried > _MOST_TRIED:
                self._evaluator.forget()
                self._search = LocalSearch(self._evaluator, self._moves)
        return self._kept

    @property
    def _is_over(self) -> bool:
        is_near = any(is_at(self._bound, self._evaluator, draft) for draft in self._kept[:1])
        return is_near or self._novelty.is_over or is_done(self._evaluator)

    def _score(self, draft: Draft) -> float:
        return self._evaluator.score(draft)[0]

    def _mend_moves(self, draft: Draft) -> Draft:
        """The first move, the best ones first, that is better once its rows are moved; or nothing.

        Climbing takes moves that are better as they are: most need other rows than before.
        """
        limit = self._score(draft) * _REACH
        moves = (*stage_edges(draft), *map(prune, self._moves.structural(draft)))
        ranks = {}
        for moved in dict.fromkeys(moves):
            rank = None if self._is_over else self._evaluator.trial(moved, limit)
            if rank is not None:
                ranks[moved] = rank
        for moved in sorted(ranks, key=ranks.__getitem__)[:_MOST_MENDED]:
            if self._is_over:
                break
            (mended,) = self._search.successive_halving([moved], _MENDING, 1)
            if self._evaluator.score(mended) < self._evaluator.score(draft):
                return self._search.climb(mended, _CLIMBING)
        return ()

    def _kick(self) -> None:
        rng = self._random
        before = self._kept[0] if rng.random() < _FROM_BEST else rng.choice(self._kept)
        kicked = prune(rng.choice(self._kicks)(before))
        is_new = self._novelty.note(kicked) and kicked != before
        if not is_new or not is_allowed(kicked, self._axes):
            return
        if self._score(kicked) > self._score(before) * _HOPELESS:
            return
        (mended,) = self._search.successive_halving([kicked], _MENDING, 1)
        if self._score(mended) <= self._score(before) * _PROMISING:
            self._keep(self._search.climb(mended, _CLIMBING))

    def _keep(self, draft: Draft) -> None:
        """Keep a draft if it is one of the best; of those divided alike the best alone."""
        if self._score(draft) == inf:
            return
        best = {shape_of(draft): draft}
        for other in self._kept:
            shape = shape_of(other)
            if shape not in best or self._evaluator.score(other) <= self._evaluator.score(draft):
                best[shape] = other
        self._kept = self._evaluator.rank(best.values())[:_MOST_KEPT]

    def _change_several(self, draft: Draft) -> Draft:
        """Some random moves, one after the other."""
        for _ in range(self._random.randint(2, _MOST_CHANGED)):
            kind = self._random.randrange(self._moves.kinds)
            others = list(self._moves.structural_of(kind, draft))
            draft = self._random.choice(others) if others else draft
        return draft

    def _make_window_anew(self, draft: Draft) -> Draft:
        """Some stages in a row, or a part of one, made anew."""
        rng = self._random
        first = rng.randrange(len(draft))
        last = min(len(draft), first + rng.randint(1, _MOST_WINDOW))
        start, stop = draft[first].start, draft[last - 1].stop
        places = self._outline.least_crossed(range(start + 1, stop))[: 2 * _MOST_PARTS]
        inner = rng.sample(places, min(len(places), rng.randrange(_MOST_PARTS)))
        ends = [start, *sorted(inner), stop]
        window: list[DraftStage] = []
        for begin, end in pairwise(ends):
            window += self._part(begin, end, draft[rng.randrange(first, last)])
        return (*draft[:first], *window, *draft[last:])

    def _part(self, start: int, stop: int, like: DraftStage) -> Draft:
        """A range run in a random way: as a stage was before, divided, or whole on a device."""
        rng, outline = self._random, self._outline
        ways: list[Draft] = [self._moves.resized(like, start, stop)]
        count = rng.randint(2, len(self._ranked)) if len(self._ranked) > 1 else 1
        chosen = set(self._ranked[:count])
        crew = tuple(device for device in self._evaluator.devices if device in chosen)
        shares = [self._speeds[device] for device in crew]
        if count > 1 and outline.is_divisible(start, stop):
            cuts = share_cuts(shares, outline.rows(start, stop))
            ways += [(DraftStage(start, stop, "rows", crew, cuts),)] * 2
        channels = outline.channels(start, stop)
        if count > 1 and channels and not any(p in outline.pins for p in range(start, stop)):
            cuts = share_cuts(shares, channels)
            ways.append((DraftStage(start, stop, "output_channels", crew, cuts),))
        ways.append(whole_stages(outline, start, stop, rng.choice(self._ranked[:count])))
        return rng.choice([way for way in ways if way])

    def _leave_out_devices(self, draft: Draft) -> Draft:
        """The draft on some of its devices: the fastest, or without random ones."""
        rng = self._random
        used = [d for d in self._ranked if any(d in stage.devices for stage in draft)]
        if len(used) < 2:
            return draft
        count = rng.randint(1, max(1, len(used) // 2))
        left_out = set(used[-count:] if rng.random() < 0.5 else rng.sample(used, count))
        stages: list[DraftStage] = []
        for stage in draft:
            devices = [d for d in stage.devices if d not in left_out]
            if stage.axis in ("rows", "output_channels") and len(devices) < len(stage.devices):
                widths = dict(zip(stage.devices, stage.widths, strict=True))
                if devices and any(widths[d] for d in devices):
                    cuts = share_cuts([widths[d] + 1e-6 for d in devices], stage.cuts[-1])
                    stages.append(
                        DraftStage(stage.start, stage.stop, stage.axis, tuple(devices), cuts)
                    )
                    continue
            stages.append(stage)
        return tuple(stages)

    def _exchange_ends(self, draft: Draft) -> Draft:
        """The first stages of one plan, and from a border that both have the last of another."""
        other = self._random.choice(self._kept)
        borders = {stage.stop for stage in draft[:-1]} & {stage.stop for stage in other[:-1]}
        if not borders:
            return draft
        place = self._random.choice(sorted(borders))
        return (
            *(stage for stage in draft if stage.stop <= place),
            *(stage for stage in other if stage.start >= place),
        )
