"""Local search on the exact cost: coarse to fine, structure between, deterministic."""

from __future__ import annotations

import random
from collections.abc import Iterator

from partita.planners.draft import Draft, DraftStage
from partita.planners.evaluate import Evaluator, Score
from partita.planners.moves import Moves, widths_of, with_widths

#: Parts of a stage's height that move, coarse to fine; 0 is one row.
FRACTIONS = (0.15, 0.05, 0.02, 0.0)
#: A gain below this part is noise.
_LEAST_GAIN = 1e-6
#: Perturbed restarts without a gain after which the search ends.
_PATIENCE = 12


class Climber:
    """Improves drafts until nothing helps, or until the evaluations or the time are spent.

    Args:
        evaluator: What drafts are judged by.
        moves: The changes to try.
    """

    def __init__(self, evaluator: Evaluator, moves: Moves) -> None:
        self._evaluator = evaluator
        self._moves = moves
        self._random = random.Random(evaluator.options.seed)
        self.draft: Draft = ()
        self.score: Score = (float("inf"), float("inf"))

    def start(self, draft: Draft) -> None:
        """Begin at a draft."""
        self.draft, self.score = draft, self._evaluator.score(draft)

    def climb(self) -> None:
        """Improve the draft with all moves until none helps."""
        before = None
        while before != self.score and not self._evaluator.is_exhausted:
            before = self.score
            for fraction in FRACTIONS:
                self._shift(fraction)
                if fraction == FRACTIONS[1]:
                    self._restructure()
            self._restructure()

    def wander(self) -> None:
        """Restart from perturbed drafts, keep what is better; end when patience does."""
        best, best_score = self.draft, self.score
        failures = 0
        while failures < _PATIENCE and not self._evaluator.is_exhausted:
            self.start(self._perturb(best))
            self.climb()
            failures += 1
            if self._is_better(self.score, best_score):
                best, best_score, failures = self.draft, self.score, 0
        self.draft, self.score = best, best_score

    def _is_better(self, score: Score, than: Score) -> bool:
        if than[0] == float("inf"):
            return score < than
        limit = than[0] * (1 - _LEAST_GAIN)
        return score[0] < limit or (score[0] <= than[0] and score[1] < than[1])

    def _accept(self, draft: Draft | None) -> bool:
        if draft is None or self._evaluator.is_exhausted:
            return False
        latency_counts = self._evaluator.options.objective == "latency"
        if latency_counts and self._evaluator.floor_s(draft) > self.score[0]:
            return False
        score = self._evaluator.score(draft)
        if not self._is_better(score, self.score):
            return False
        self.draft, self.score = draft, score
        return True

    def _shift(self, fraction: float) -> None:
        """Move rows until no shift of this size helps; a shift that helps is repeated."""
        improved = True
        while improved and not self._evaluator.is_exhausted:
            improved = False
            for move in self._moves.numeric(self.draft, fraction):
                while self._accept(move(self.draft)):
                    improved = True

    def _restructure(self) -> None:
        improved = True
        while improved and not self._evaluator.is_exhausted:
            improved = any(self._accept(draft) for draft in self._structures())

    def _structures(self) -> Iterator[Draft]:
        yield from self._moves.structural(self.draft)

    def _perturb(self, draft: Draft) -> Draft:
        """Return the draft with jittered rows and, at times, one random change of structure."""
        if self._random.random() < 0.75:
            others = list(self._moves.structural(draft))
            if others:
                draft = self._random.choice(others)
        return tuple(self._jitter(stage) if stage.cuts else stage for stage in draft)

    def _jitter(self, stage: DraftStage) -> DraftStage:
        widths = widths_of(stage)
        total = sum(widths)
        for _ in range(2):
            giver, taker = self._random.sample(range(len(widths)), 2) if len(widths) > 1 else (0, 0)
            rows = min(widths[giver], self._random.randint(0, max(1, total // 10)))
            widths[giver] -= rows
            widths[taker] += rows
        return with_widths(stage, widths)
