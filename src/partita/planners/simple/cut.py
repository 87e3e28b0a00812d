"""Cuts of the whole network into ranges, each on one device, by dynamic programming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.simple.cutting.again import Again, is_small
from partita.planners.simple.cutting.chain import Chain, least_chain
from partita.planners.simple.cutting.once import Once, can_count
from partita.planners.simple.cutting.tables import CutTables, Step, Table, Terms
from partita.planners.simple.single import single_drafts

#: Times that the limit of a pipeline's busiest lane is halved towards the best period. Not tuned.
_HALVINGS = 5


@register("cut", cost="cheap")
def plan_cut(evaluator: Evaluator) -> Chosen:
    """The best cuts of the network into ranges of layers, each whole on one device.

    Layers that no device has memory for are divided among several.

    Exact for chains of layers, among the cuts that the result's note names. Where several tensors
    cross, all of them are thought to move with the range that runs, which may be more than is
    needed; the result is then priced exactly.
    """
    drafts, reached_s = single_drafts(evaluator), inf
    for fewer in evaluator.fewer_in_flight():
        cuts = Cuts(fewer, reached_s)
        drafts += cuts.drafts()
        reached_s = cuts.reached_s
        if not cuts.is_tight or evaluator.budget.is_over:
            break
    return Chosen(evaluator.best(drafts), note=cuts.note)


class Cuts:
    """The best cuts by what is wanted.

    Args:
        reached_s: What is known to be reached, with more requests in flight say: where ranges on
            devices used again are looked for, only what is better is of use.

    Attributes:
        reached_s: The same after :meth:`drafts`, with what they reach.
        note: Among which cuts they are the best.
        is_tight: Whether memory may forbid better ones.
    """

    def __init__(self, evaluator: Evaluator, reached_s: float = inf) -> None:
        self._evaluator = evaluator
        self.reached_s = reached_s
        self._tables = CutTables(evaluator)
        self.is_tight = self._tables.is_scarce
        self._floors = Chain(self._tables.floor_s, self._tables.next_s, self._tables.source)
        self._can_count = can_count(self._tables)
        self.note = ""

    def drafts(self) -> Iterator[Draft]:
        """Yield the best draft of each program that has a say."""
        options, tables = self._evaluator.options, self._tables
        may_swap = options.swap and tables.is_scarce  # which depends on all ranges of a device
        soonest = tables.draft(least_chain(tables, self._watts()), once=False)
        if soonest:
            yield soonest
        is_sum = options.objective in ("latency", "energy") and not may_swap
        if is_sum and soonest and self._evaluator.score(soonest)[0] < inf:
            self.note, self.is_tight = "every cut", False
            return
        self.note = _note(self._can_count, is_small(tables))
        if options.objective == "throughput":
            yield from self._pipelines()
        else:
            yield from self._in_memory()

    def _watts(self) -> Sequence[float] | None:
        """The watts of each kind where energy counts."""
        evaluator = self._evaluator
        watts = evaluator.problem.watts
        if evaluator.options.objective != "energy" or not watts:
            return None
        names = evaluator.cluster.names
        return [watts[names.index(kind[0])] for kind in self._tables.kinds]

    def _pipelines(self) -> Iterator[Draft]:
        """Yield plans of the least seconds per request under load."""
        in_flight, known = self._evaluator.options.in_flight, list[Draft]()
        if self._can_count:
            known = [self._tables.draft(s, once=True) for s in self._balanced(in_flight)]
        yield from known
        yield from self._again(in_flight, known)

    def _balanced(self, in_flight: int) -> Iterator[list[Step]]:
        """Yield the pipeline of the least busy lane, then such whose latency is shorter."""
        tables = self._tables
        guess = Once(tables, Terms(tables.floor_s, tables.busy_s, np.maximum)).steps()
        if not guess:
            return
        most_s = tables.busiest_s(guess)
        work_s = tables.exact(tables.floor_s, most_s, tables.work_s)
        least_s = Once(tables, Terms(work_s, tables.busy_s, np.maximum)).value
        limit_s, above_s = least_s, inf
        for _ in range(_HALVINGS + 1):
            if limit_s > most_s:
                most_s = limit_s
                work_s = tables.exact(tables.floor_s, most_s, tables.work_s)
            steps = self._within(work_s, limit_s)
            if not steps:
                return
            yield steps
            served_s = tables.total_s(steps) / in_flight
            if served_s <= limit_s:
                above_s = limit_s
                if limit_s == least_s:
                    return
            else:
                least_s = limit_s
                above_s = min(above_s, served_s)
            limit_s = (least_s + above_s) / 2

    def _within(self, work_s: Table, limit_s: float) -> list[Step]:
        """The soonest pipeline whose lanes are busy for at most ``limit_s``."""
        tables, most_s = self._tables, limit_s * (1 + 1e-12)
        work_s = np.where(work_s <= most_s, work_s, inf)
        move_s = np.where(tables.busy_s <= most_s, tables.move_s, inf)
        return Once(tables, Terms(work_s, move_s, np.add)).steps()

    def _in_memory(self) -> Iterator[Draft]:
        """Yield the soonest plans that memory allows; where it counts, those that take least."""
        tables, wants_least = self._tables, self._evaluator.options.objective == "memory"
        known: list[Draft] = []
        if self._can_count:
            floor_s = self._least_shares() if wants_least else tables.floor_s
            guess = Once(tables, Terms(floor_s, tables.move_s, np.add)).steps()
            if guess:
                work_s = self._needed(floor_s, tables.total_s(guess))
                steps = Once(tables, Terms(work_s, tables.move_s, np.add)).steps()
                known = [tables.draft(steps, once=True)]
        yield from known
        if not wants_least or not known:
            yield from self._again(0, known)

    def _least_shares(self) -> Table:
        """The floors of those ranges that take no more memory than the best plan needs anywhere."""
        tables = self._tables
        room = np.array(tables.memory_bytes)[:, None, None]
        floor = np.where(np.isfinite(tables.floor_s), tables.weight_bytes / room, inf)
        free = np.where(np.isfinite(tables.move_s), 0.0, inf)
        guess = Once(tables, Terms(floor, free, np.maximum)).steps()
        most = max((tables.share(step) for step in guess), default=0.0)
        shares = tables.exact(floor, most, tables.share)
        least = Once(tables, Terms(shares, free, np.maximum)).value
        return np.where(shares <= least, tables.floor_s, inf)

    def _needed(self, floor_s: Table, most_s: float) -> Table:
        """The seconds of ranges that a plan of at most ``most_s`` may have."""
        needed = self._floors.through <= most_s * (1 + 1e-9)
        return self._tables.exact(np.where(needed, floor_s, inf), inf, self._tables.work_s)

    def _again(self, in_flight: int, known: Sequence[Draft]) -> Iterator[Draft]:
        """Yield the plan that uses a device again and is better than those known, if any."""
        tables = self._tables
        floors = self._floors
        if tables.too_large:
            floors = Chain(tables.divided_floor_s(), tables.next_s, tables.source)
        again = Again(tables, in_flight, known, floors.left, below_s=self.reached_s)
        draft = again.draft()
        if draft:
            yield draft
        if all(map(self._holds, [draft] if draft else known)):
            self.reached_s = again.limit_s

    def _holds(self, draft: Draft) -> bool:
        """Whether devices have memory for a plan with all requests in flight."""
        if self._evaluator.score(draft)[0] == inf:
            return False
        return self._evaluator.estimate(draft).in_flight == self._evaluator.options.in_flight


def _note(can_count: bool, is_all: bool) -> str:
    """Among which cuts the best are taken."""
    if is_all:
        return "every cut"
    return "every cut with each device once, a beam of others" if can_count else "a beam of cuts"
