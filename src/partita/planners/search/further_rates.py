"""What is done for throughput with time that is left: random changes of replicas and pipelines.

A change moves a border between ranges, gives devices to other ranges, cuts a range in two or joins
two, changes shares, or is one of local search's. Most are thought over in a millisecond; those that
should be nearly as good as the best are simulated under load. What is a little worse is gone on
from, so that two changes may help where one does not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from partita.planners.drafts.draft import Draft, DraftStage, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.search.further_search import Novelty, is_done
from partita.planners.search.moves import Moves, prune
from partita.planners.search.nearness import is_at
from partita.planners.search.pipelines import balance_rows, expected_s, replicate
from partita.planners.simple.rows import device_speeds

#: A draft this much worse than the one it is made of is gone on from; one that should be this much
#: worse than the best is not simulated.
_WORSE, _TRUST = 1.01, 1.02
#: Changes without a gain after which the search goes on from one of the best again.
_PATIENCE = 40
#: Changes after which what is known of drafts is forgotten, lest it fill the memory. Not tuned.
_FORGET_EVERY = 2000
#: Best drafts that are returned to.
_MOST_KEPT = 6
_WHOLE = ("none", "replica")


class FurtherRates:
    """Changes drafts until the time is over.

    Args:
        evaluator: Simulates drafts under load.
        drafts: To begin with, the best first.
        bound: Seconds per request that no plan goes below.
    """

    def __init__(self, evaluator: Evaluator, drafts: Sequence[Draft], bound: float) -> None:
        self._evaluator = evaluator
        self._bound = bound
        self._random = random.Random(evaluator.options.seed)
        speeds = device_speeds(evaluator)
        axes = evaluator.options.axes
        self._moves = Moves(evaluator.outline, evaluator.devices, speeds, axes)
        self._kept = sorted(dict.fromkeys(drafts[:_MOST_KEPT]), key=evaluator.judge)
        self._novelty = Novelty()
        self._changes: tuple[Callable[[Draft], Draft], ...] = (
            self._move_border,
            self._give_device,
            self._swap_devices,
            self._cut_range,
            self._join_ranges,
            self._change_shares,
            self._change_otherwise,
        )

    def run(self) -> list[Draft]:
        """The drafts that are kept, the best first."""
        judge, rng = self._evaluator.judge, self._random
        tried = 0
        while self._kept and not self._is_over:
            current = rng.choice(self._kept)
            failures = 0
            while failures < _PATIENCE and not self._is_over:
                changed = self._changed(current)
                failures += 1
                tried += 1
                if tried % _FORGET_EVERY == 0:
                    self._evaluator.forget()
                if changed is None:
                    continue
                if judge(changed) < judge(self._kept[0]):
                    failures = 0
                if judge(changed)[0] < judge(current)[0] * _WORSE:
                    current = changed
                self._kept = sorted(dict.fromkeys([*self._kept, changed]), key=judge)[:_MOST_KEPT]
        return self._kept

    @property
    def _is_over(self) -> bool:
        is_near = any(is_at(self._bound, self._evaluator, draft) for draft in self._kept[:1])
        return is_near or self._novelty.is_over or is_done(self._evaluator)

    def _changed(self, draft: Draft) -> Draft | None:
        """The draft after one or two changes; None where it should not be worth simulating."""
        evaluator = self._evaluator
        changed = draft
        for _ in range(self._random.choice((1, 1, 2))):
            changed = self._random.choice(self._changes)(changed)
        changed = prune(changed)
        if not self._novelty.note(changed) or changed == draft:
            return None
        if not is_allowed(changed, evaluator.options.axes):
            return None
        least_s = evaluator.judge(self._kept[0])[0]
        expected = expected_s(evaluator, changed)
        if expected > least_s * _TRUST and any(stage.axis == "rows" for stage in changed):
            changed = balance_rows(evaluator, changed)
            expected = expected_s(evaluator, changed)
        return changed if expected <= least_s * _TRUST else None

    def _ranges(self, draft: Draft, at_least: int = 1) -> list[int]:
        """Numbers of the stages that are whole, on at least so many devices."""
        return [
            number
            for number, stage in enumerate(draft)
            if stage.axis in _WHOLE and len(stage.devices) >= at_least
        ]

    def _stage(self, start: int, stop: int, devices: Sequence[str]) -> DraftStage:
        """A range replicated on devices, in the evaluator's order."""
        ordered = [device for device in self._evaluator.devices if device in devices]
        return replicate(self._evaluator, start, stop, ordered)

    def _with(self, draft: Draft, number: int, devices: Sequence[str]) -> Draft:
        stage = self._stage(draft[number].start, draft[number].stop, devices)
        return (*draft[:number], stage, *draft[number + 1 :])

    def _move_border(self, draft: Draft) -> Draft:
        """The border between two ranges elsewhere, near more often than far."""
        numbers = [n for n in self._ranges(draft[:-1]) if draft[n + 1].axis in _WHOLE]
        if not numbers:
            return draft
        number = self._random.choice(numbers)
        first, second = draft[number], draft[number + 1]
        reach = max(1, round((second.stop - first.start) * self._random.random() ** 3))
        place = first.stop + self._random.choice((-reach, reach))
        if not first.start < place < second.stop:
            return draft
        left = self._stage(first.start, place, first.devices)
        right = self._stage(place, second.stop, second.devices)
        return (*draft[:number], left, right, *draft[number + 2 :])

    def _give_device(self, draft: Draft) -> Draft:
        """A device in another range than before, in none, or in one more."""
        rng = self._random
        device = rng.choice(self._evaluator.devices)
        for number in self._ranges(draft, at_least=2):
            if device in draft[number].devices and rng.random() < 0.8:
                draft = self._with(draft, number, [d for d in draft[number].devices if d != device])
        numbers = [n for n in self._ranges(draft) if device not in draft[n].devices]
        if numbers and rng.random() < 0.9:
            number = rng.choice(numbers)
            draft = self._with(draft, number, (*draft[number].devices, device))
        return draft

    def _swap_devices(self, draft: Draft) -> Draft:
        """Two devices in each other's place in all ranges."""
        one, other = (self._random.choice(self._evaluator.devices) for _ in range(2))
        names = {one: other, other: one}
        for number in self._ranges(draft):
            devices = [names.get(device, device) for device in draft[number].devices]
            draft = self._with(draft, number, devices)
        return draft

    def _cut_range(self, draft: Draft) -> Draft:
        """A range cut in two, each for some of its devices, about as long for both."""
        rng, ranges = self._random, self._evaluator.ranges
        numbers = [n for n in self._ranges(draft, 2) if draft[n].stop - draft[n].start > 1]
        if not numbers:
            return draft
        number = rng.choice(numbers)
        stage = draft[number]
        devices = rng.sample(stage.devices, len(stage.devices))
        count = rng.randrange(1, len(devices))
        first, second = devices[:count], devices[count:]

        def longer_s(place: int) -> float:
            return max(
                1 / sum(1 / max(ranges.work_s(start, stop, d), 1e-12) for d in crew)
                for start, stop, crew in (
                    (stage.start, place, first),
                    (place, stage.stop, second),
                )
            )

        inner = range(stage.start + 1, stage.stop)
        place = min(rng.sample(inner, min(len(inner), 8)), key=longer_s)
        parts = (
            self._stage(stage.start, place, first),
            self._stage(place, stage.stop, second),
        )
        return (*draft[:number], *parts, *draft[number + 1 :])

    def _join_ranges(self, draft: Draft) -> Draft:
        """Two ranges as one, on the devices of both."""
        numbers = [n for n in self._ranges(draft[:-1]) if draft[n + 1].axis in _WHOLE]
        if not numbers:
            return draft
        number = self._random.choice(numbers)
        first, second = draft[number], draft[number + 1]
        joined = self._stage(first.start, second.stop, (*first.devices, *second.devices))
        return (*draft[:number], joined, *draft[number + 2 :])

    def _change_shares(self, draft: Draft) -> Draft:
        """One request more or less for one replica."""
        numbers = [number for number, stage in enumerate(draft) if stage.shares]
        if not numbers:
            return draft
        number = self._random.choice(numbers)
        shares = list(draft[number].shares)
        place = self._random.randrange(len(shares))
        shares[place] = max(1, shares[place] + self._random.choice((-1, 1)))
        return (*draft[:number], replace(draft[number], shares=tuple(shares)), *draft[number + 1 :])

    def _change_otherwise(self, draft: Draft) -> Draft:
        """A move of local search, which knows nothing of shares."""
        kind = self._random.randrange(self._moves.kinds)
        others = list(self._moves.structural_of(kind, draft))
        changed = self._random.choice(others) if others else draft
        return tuple(
            self._stage(stage.start, stage.stop, stage.devices)
            if len(stage.shares) not in (0, len(stage.devices))
            else stage
            for stage in changed
        )
