"""Local search on the exact cost: coarse to fine, structure between, deterministic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import RankKey
from partita.planners.search.moves import MOST_PAIRED, Moves

#: What moves, coarse to fine: parts of a stage's height, then rows.
STEPS = (0.15, 0.05, 2, 1)
#: What moves after a perturbation, which is small itself.
FINE_STEPS = (0.04, 2, 1)
#: A gain below this part is noise.
_LEAST_GAIN = 1e-6
#: Less lateness by this part counts where latency is equal.
_LEAST_EASE = 1e-3
#: Devices that end first which rows of the one that ends last are offered.
_TAKERS = 2
#: Perturbed restarts without a gain after which the search ends.
_PATIENCE = 150
#: How often the best is perturbed rather than any of the elite.
_FROM_BEST = 0.5


class LocalSearch:
    """Improves drafts until nothing helps, or until the evaluations or the time are spent."""

    def __init__(self, evaluator: Evaluator, moves: Moves) -> None:
        self._evaluator = evaluator
        self._budget = evaluator.budget
        self._moves = moves
        self._random = random.Random(evaluator.options.seed)
        # Counted here: what the evaluator happens to know must not change how far a search goes.
        self._tried: set[Draft] = set()
        self._most = 0
        # Of few devices all pairs are tried: that finds more, and is soon done.
        self._is_guided = evaluator.pricer is not None and len(evaluator.devices) > MOST_PAIRED
        self._draft: Draft = ()
        self._rank: RankKey | None = None

    @property
    def tried(self) -> int:
        """How many different drafts were tried."""
        return len(self._tried)

    def successive_halving(self, drafts: Sequence[Draft], most: int, kept: int) -> list[Draft]:
        """Move the rows of drafts, then of the better half again, until few are left.

        Args:
            most: Drafts to try in each round.
            kept: How many go on to the end.
        """
        racing = list(drafts)
        while racing:
            moved = []
            for draft in racing:
                self._begin(draft, most // len(racing))
                self._shift_rows(STEPS)
                moved.append(self._draft)
            moved.sort(key=self._evaluator.score)
            if len(racing) <= kept:
                return moved
            racing = moved[: max(kept, len(moved) // 2)]
        return []

    def climb(self, draft: Draft, most: int) -> Draft:
        """The draft improved with all moves until none helps.

        Args:
            most: Drafts to try.
        """
        self._begin(draft, most)
        self._climb()
        return self._draft

    def iterate_restarts(self, elite: Sequence[Draft], most: int) -> list[Draft]:
        """Drafts improved from perturbed ones, the best first; ends when patience does.

        Args:
            elite: Drafts to perturb, the best first; each is replaced by what is better than it.
            most: Drafts to try.
        """
        pool = [(draft, self._evaluator.trial(draft)) for draft in elite]
        end = self.tried + most
        failures = 0
        while pool and failures < _PATIENCE and self.tried < end and not self._is_spent:
            place = 0 if self._random.random() < _FROM_BEST else self._random.randrange(len(pool))
            self._begin(self._perturb(pool[place][0]), end - self.tried)
            self._shift_rows(FINE_STEPS)
            failures += 1
            if self._is_better(self._rank, pool[place][1]):
                self._climb()
                pool[place] = (self._draft, self._rank)
                if place == 0 or self._is_better(self._rank, pool[0][1]):
                    pool[0], pool[place] = pool[place], pool[0]
                    failures = 0
        return [draft for draft, _ in pool]

    def _begin(self, draft: Draft, most: int) -> None:
        self._hold(draft, self._evaluator.trial(draft))
        self._most = self.tried + most

    def _hold(self, draft: Draft, rank: RankKey | None) -> None:
        self._draft, self._rank = draft, rank
        if rank is not None:
            self._evaluator.expect(draft)

    def _climb(self) -> None:
        before = None
        while before != self._rank and not self._is_over:
            before = self._rank
            self._shift_rows(STEPS)
            self._restructure()
            if self._is_guided and before == self._rank:
                for step in STEPS:
                    self._shift(step)

    def _shift_rows(self, steps: Sequence[float]) -> None:
        """Move rows, coarse to fine, until nothing helps."""
        for step in steps:
            self._balance(step)
            if not self._is_guided:
                self._shift(step)

    def _balance(self, step: float) -> None:
        """Move rows of each stage from who ends last to who ends first, while it helps.

        Of many devices this finds in a few tries most of what all pairs would.
        """
        improved = self._evaluator.pricer is not None
        while improved and not self._is_over:
            improved = False
            for index, ends in enumerate(self._ends()):
                if len(ends) > 1:
                    order = sorted(ends, key=ends.__getitem__)
                    for taker in order[:_TAKERS]:
                        changed = self._moves.shift_one(
                            self._draft, index, (order[-1], taker), step
                        )
                        if self._accept(changed):
                            improved = True
                            break

    def _ends(self) -> list[dict[str, float]]:
        """Per stage when each device that has rows of it is done; empty where unknown."""
        pricer, ends = self._evaluator.pricer, []
        if pricer is None:
            return []
        for stage, state in zip(self._draft, pricer.states(self._draft), strict=False):
            is_divided = stage.axis in ("rows", "output_channels")
            devices = stage.devices if is_divided else ()
            ends.append({device: pricer.free_s(state, device) for device in devices})
        return ends

    @property
    def _is_spent(self) -> bool:
        return self._budget.is_spent

    @property
    def _is_over(self) -> bool:
        return self.tried >= self._most or self._is_spent

    @staticmethod
    def _is_better(rank: RankKey | None, than: RankKey | None) -> bool:
        """Whether a draft is better, or as good with fewer messages or less lateness.

        Until a draft fits in memory, what is missing is all that counts.
        """
        if rank is None or than is None:
            return rank is not None
        if rank.score[0] == inf:
            return rank.score < than.score
        if rank.score[0] < than.score[0] * (1 - _LEAST_GAIN):
            return True
        if rank.score[0] > than.score[0] or rank.messages > than.messages:
            return False
        mine, theirs = ((key.score[0], key.messages, key.score[1]) for key in (rank, than))
        # One order, lest changes go round in a circle.
        return mine < theirs or (
            mine == theirs and rank.lateness < than.lateness * (1 - _LEAST_EASE)
        )

    def _accept(self, draft: Draft | None) -> bool:
        if draft is None or self._is_over:
            return False
        self._tried.add(draft)
        limit = inf if self._rank is None else self._rank.score[0]
        rank = self._evaluator.trial(draft, limit)
        if not self._is_better(rank, self._rank):
            return False
        self._hold(draft, rank)
        return True

    def _shift(self, step: float) -> None:
        """Move rows until no shift of this size helps; a shift that helps is repeated."""
        improved = True
        while improved and not self._is_over:
            improved = False
            for move in self._moves.numeric(self._draft, step):
                while self._accept(move(self._draft)):
                    improved = True

    def _restructure(self) -> None:
        """Change the structure until nothing helps, each kind of change in its turn.

        To begin anew after each gain would spend the drafts on the first kinds.
        """
        failures = kind = 0
        while failures < self._moves.kinds and not self._is_over:
            changed = self._moves.structural_of(kind, self._draft)
            failures = 0 if any(map(self._accept, changed)) else failures + 1
            kind = (kind + 1) % self._moves.kinds

    def _perturb(self, draft: Draft) -> Draft:
        """The draft with jittered rows and, at times, one random change of structure."""
        if self._random.random() < 0.75:
            others = list(self._moves.structural(draft))
            if others:
                draft = self._random.choice(others)
        return tuple(self._jitter(stage) if stage.cuts else stage for stage in draft)

    def _jitter(self, stage: DraftStage) -> DraftStage:
        widths = stage.widths
        total = sum(widths)
        for _ in range(2):
            giver, taker = self._random.sample(range(len(widths)), 2) if len(widths) > 1 else (0, 0)
            rows = min(widths[giver], self._random.randint(0, max(1, total // 10)))
            widths[giver] -= rows
            widths[taker] += rows
        return stage.with_widths(widths)
