"""Random drafts of any network: what laws about pricing are tried on."""

from __future__ import annotations

import random

from partita.planners import Draft, DraftStage, Evaluator
from partita.planners.drafts.draft import channel_axis, share_cuts


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
    outputs = outline.outputs(start, stop)
    if draw < 0.85 and len(outputs) == 1 and "output_channels" in outline.splits(stop - 1):
        shape = outline.graph.tensors[outputs[0]].shape
        cuts = share_cuts(shares, shape[channel_axis(shape)])
        return DraftStage(start, stop, "output_channels", crew, cuts)
    if draw < 0.9:
        return DraftStage(start, stop, "everywhere", names)
    return DraftStage(start, stop, "none", (rng.choice(names),))
