"""Random drafts of any network: what laws about pricing are tried on."""

from __future__ import annotations

import random
from collections.abc import Iterator

from partita.planners import Draft, DraftStage, Evaluator
from partita.planners.drafts.channel_pairs import channel_pairs
from partita.planners.drafts.draft import share_cuts


def draw_draft(evaluator: Evaluator, rng: random.Random, *, longest: int) -> Draft:
    """Return a draft of random ranges, axes, devices in any order, and shares.

    Args:
        evaluator: The network and its devices.
        rng: Where everything random comes from.
        longest: Most layers of a stage.
    """
    return tuple(_draw_stages(evaluator, rng, (0, len(evaluator.outline)), longest))


def redraw_end(evaluator: Evaluator, rng: random.Random, draft: Draft) -> Draft:
    """Return a draft with the same first stages and other ones after them."""
    kept = draft[: rng.randint(0, len(draft) - 1)]
    start = kept[-1].stop if kept else 0
    return (*kept, *_draw_stages(evaluator, rng, (start, len(evaluator.outline)), 2))


def redraw_beginning(evaluator: Evaluator, rng: random.Random, draft: Draft) -> Draft:
    """Return a draft with the same last stages and other ones before them."""
    kept = draft[rng.randint(1, len(draft) - 1) :] if len(draft) > 1 else ()
    stop = kept[0].start if kept else len(evaluator.outline)
    return (*_draw_stages(evaluator, rng, (0, stop), 2), *kept)


def _draw_stages(
    evaluator: Evaluator, rng: random.Random, span: tuple[int, int], longest: int
) -> Iterator[DraftStage]:
    """Yield stages over a span of layers, some of them pairs that one sum joins."""
    start, end = span
    pairs = {pair.start: pair for pair in channel_pairs(evaluator.outline)}
    while start < end:
        pair = pairs.get(start)
        if pair is not None and pair.last < end and rng.randint(0, 2) == 0:
            crew = tuple(rng.sample(evaluator.devices, rng.randint(1, len(evaluator.devices))))
            merge = tuple(rng.sample(crew, rng.randint(1, len(crew))))
            yield from pair.stages(crew, [rng.randint(1, 4) for _ in crew], merge)
            start = pair.last + 1
            continue
        stage = _draw_stage(evaluator, rng, start, min(longest, end - start))
        yield stage
        start = stage.stop


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
    inputs = outline.input_channels(start, start + 1)
    if draw < 75 and inputs and rng.randint(0, 1):
        cuts = _draw_cuts(rng, len(crew), inputs)
        merge = tuple(rng.sample(names, rng.randint(1, len(names))))
        return DraftStage(start, start + 1, "input_channels", crew, cuts, merge=merge)
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
