"""Local search on the exact cost: coarse to fine, structure between, deterministic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import RankKey
from partita.planners.search.moves import Moves

#: What moves, coarse to fine: parts of a stage's height, then rows.
STEPS = (0.15, 0.05, 2, 1)
#: What moves in a race of many starts.
RACE_STEPS = (0.15, 0.05, 2, 1)
#: What moves after a perturbation, which is small itself.
FINE_STEPS = (0.04, 2, 1)
#: A gain below this part is noise.
_LEAST_GAIN = 1e-6
#: Less lateness by this part counts where latency is equal.
_LEAST_EASE = 1e-3
#: Perturbed restarts without a gain after which the search ends.
_PATIENCE = 150
#: How often the best is perturbed rather than any of the elite.
_FROM_BEST = 0.5


class LocalSearch:
    """Improves drafts until nothing helps, or until the evaluations or the time are spent.

    Args:
        evaluator: What drafts are judged by.
        moves: The changes to try.
    """

    def __init__(self, evaluator: Evaluator, moves: Moves) -> None:
        self._evaluator = evaluator
        self._budget = evaluator.budget
        self._moves = moves
        self._random = random.Random(evaluator.options.seed)
        self._most = self._budget.most_evaluations
        self.draft: Draft = ()
        self.trial: RankKey | None = None

    @property
    def objective(self) -> float:
        """What the draft scores; infinite where it is impossible."""
        return self.trial.score[0] if self.trial is not None else inf

    def start(self, draft: Draft) -> None:
        """Begin at a draft."""
        self.draft, self.trial = draft, self._evaluator.trial(draft)

    def race(self, most: int) -> None:
        """Move rows alone, with so many evaluations at most."""
        self._most = min(self._budget.evaluations + most, self._budget.most_evaluations)
        self.shift(RACE_STEPS)

    def climb(self, share: float = 1.0) -> None:
        """Improve the draft with all moves until none helps.

        Args:
            share: Part of the evaluations that are left which this may take.
        """
        spent = self._budget.evaluations
        self._most = spent + int((self._budget.most_evaluations - spent) * share)
        before = None
        while before != self.trial and not self._is_over:
            before = self.trial
            self.shift()
            self._restructure()

    def shift(self, steps: Sequence[float] = STEPS) -> None:
        """Move rows, coarse to fine, until nothing helps."""
        for step in steps:
            self._shift(step)

    def wander(self, elite: Sequence[Draft]) -> None:
        """Restart from perturbed drafts, keep what is better; end at the best when patience does.

        Args:
            elite: Drafts to perturb, the best first; each is replaced by what is better than it.
        """
        self._most = self._budget.most_evaluations
        pool = [(draft, self._evaluator.trial(draft)) for draft in elite]
        failures = 0
        while failures < _PATIENCE and not self._is_over:
            place = 0 if self._random.random() < _FROM_BEST else self._random.randrange(len(pool))
            self.start(self._perturb(pool[place][0]))
            self.shift(FINE_STEPS)
            failures += 1
            if self._is_better(self.trial, pool[place][1]):
                self.climb()
                pool[place] = (self.draft, self.trial)
                if place == 0 or self._is_better(self.trial, pool[0][1]):
                    pool[0], pool[place] = pool[place], pool[0]
                    failures = 0
        self.draft, self.trial = pool[0]

    @property
    def _is_over(self) -> bool:
        return self._budget.evaluations >= self._most or self._budget.is_over

    @staticmethod
    def _is_better(trial: RankKey | None, than: RankKey | None) -> bool:
        """Whether a trial is better, or as good with fewer messages or less lateness."""
        if trial is None or than is None:
            return trial is not None
        if trial.score[0] < than.score[0] * (1 - _LEAST_GAIN):
            return True
        if trial.score[0] > than.score[0] or trial.messages > than.messages:
            return False
        mine, theirs = ((one.score[0], one.messages, one.score[1]) for one in (trial, than))
        # One order, lest changes go round in a circle.
        return mine < theirs or (
            mine == theirs and trial.lateness < than.lateness * (1 - _LEAST_EASE)
        )

    def _accept(self, draft: Draft | None) -> bool:
        if draft is None or self._is_over:
            return False
        trial = self._evaluator.trial(draft, self.objective)
        if not self._is_better(trial, self.trial):
            return False
        self.draft, self.trial = draft, trial
        return True

    def _shift(self, step: float) -> None:
        """Move rows until no shift of this size helps; a shift that helps is repeated."""
        improved = True
        while improved and not self._is_over:
            improved = False
            for move in self._moves.numeric(self.draft, step):
                while self._accept(move(self.draft)):
                    improved = True

    def _restructure(self) -> None:
        improved = True
        while improved and not self._is_over:
            improved = any(self._accept(draft) for draft in self._moves.structural(self.draft))

    def _perturb(self, draft: Draft) -> Draft:
        """Return the draft with jittered rows and, at times, one random change of structure."""
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
