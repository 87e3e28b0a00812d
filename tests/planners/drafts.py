"""Random drafts of any network: what laws about pricing are tried on."""

from __future__ import annotations

import random

from partita.planners import Draft, DraftStage, Evaluator
from partita.planners.drafts.draft import share_cuts


def draw_draft(evaluator: Evaluator, rng: random.Random, *, longest: int) -> Draft:
    """Return a draft of random ranges, axes, devices in any order, and shares.

    Args:
        evaluator: The network and its devices.
        rng: Where everything random comes from.
        longest: Most layers of a stage.
    """
    outline = evaluator.outline
    stages: list[DraftStage] = []
    start = 0
    while start < len(outline):
        stop = min(len(outline), start + rng.randint(1, longest))
        stages.append(_draw_stage(evaluator, rng, start, stop))
        start = stages[-1].stop
    return tuple(stages)


def _draw_stage(evaluator: Evaluator, rng: random.Random, start: int, stop: int) -> DraftStage:
    outline, names = evaluator.outline, evaluator.devices
    crew = tuple(rng.sample(names, rng.randint(min(2, len(names)), len(names))))
    shares = [rng.random() for _ in crew]
    draw = rng.random()
    if outline.kinds[start] == "reduce" and draw < 0.7:
        return DraftStage(start, start + 1, "reduce", crew)
    if draw < 0.7 and all(outline.kinds[p] == "rows" for p in range(start, stop)):
        return DraftStage(start, stop, "rows", crew, share_cuts(shares, outline.rows(start, stop)))
    channels = outline.channels(start, stop)
    if draw < 0.85 and channels:
        return DraftStage(start, stop, "output_channels", crew, share_cuts(shares, channels))
    if draw < 0.9:
        return DraftStage(start, stop, "everywhere", names)
    return DraftStage(start, stop, "none", (rng.choice(names),))
