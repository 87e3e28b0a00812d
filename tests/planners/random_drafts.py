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
    stages: list[DraftStage] = []
    while not stages or stages[-1].stop < len(evaluator.outline):
        stages.append(_draw_stage(evaluator, rng, stages[-1].stop if stages else 0, longest))
    return tuple(stages)


def redraw_end(evaluator: Evaluator, rng: random.Random, draft: Draft) -> Draft:
    """Return a draft with the same first stages and other ones after them."""
    kept = draft[: rng.randint(0, len(draft) - 1)]
    stages = list(kept)
    while not stages or stages[-1].stop < len(evaluator.outline):
        stages.append(_draw_stage(evaluator, rng, stages[-1].stop if stages else 0, 2))
    return tuple(stages)


def redraw_beginning(evaluator: Evaluator, rng: random.Random, draft: Draft) -> Draft:
    """Return a draft with the same last stages and other ones before them."""
    kept = draft[rng.randint(1, len(draft) - 1) :] if len(draft) > 1 else ()
    stop = kept[0].start if kept else len(evaluator.outline)
    stages: list[DraftStage] = []
    while not stages or stages[-1].stop < stop:
        start = stages[-1].stop if stages else 0
        stages.append(_draw_stage(evaluator, rng, start, min(2, stop - start)))
    return (*stages, *kept)


def _draw_stage(evaluator: Evaluator, rng: random.Random, start: int, longest: int) -> DraftStage:
    outline, names = evaluator.outline, evaluator.devices
    stop = min(len(outline), start + rng.randint(1, longest))
    crew = tuple(rng.sample(names, rng.randint(min(2, len(names)), len(names))))
    draw = rng.randint(0, 99)
    if outline.kinds[start] == "reduce" and draw < 70:
        return DraftStage(start, start + 1, "reduce", crew)
    if all(outline.kinds[p] == "rows" for p in range(start, stop)):
        rows, columns = outline.rows(start, stop), outline.columns(start, stop)
        if draw < 25 and columns > 1:
            return _draw_tiles(rng, names, (start, stop), (rows, columns))
        if draw < 65:
            cuts, edge = _draw_cuts(rng, len(crew), rows), rng.choice((0, 0, 1, 2))
            return DraftStage(start, stop, "rows", crew, cuts, edge=edge)
    channels = outline.channels(start, stop)
    if draw < 80 and channels:
        return DraftStage(
            start, stop, "output_channels", crew, _draw_cuts(rng, len(crew), channels)
        )
    if draw < 90:
        return DraftStage(start, stop, "everywhere", crew)
    return DraftStage(start, stop, "none", (rng.choice(names),))


def _draw_tiles(
    rng: random.Random, names: tuple[str, ...], span: tuple[int, int], extents: tuple[int, int]
) -> DraftStage:
    """Return a grid of tiles, several of them on one device perhaps."""
    bands, columns = rng.randint(1, 3), rng.randint(2, 3)
    crew = tuple(rng.choice(names) for _ in range(bands * columns))
    cuts, ends = (
        _draw_cuts(rng, parts, extent)
        for parts, extent in zip((bands, columns), extents, strict=True)
    )
    return DraftStage(*span, "tiles", crew, cuts, ends, rng.choice((0, 0, 1, 2)))


def _draw_cuts(rng: random.Random, parts: int, extent: int) -> tuple[int, ...]:
    """Return random cuts; some parts may be empty."""
    shares = [rng.randint(0, 4) for _ in range(parts)]
    return share_cuts(shares if any(shares) else [1] * parts, extent)
