"""The best single device."""

from __future__ import annotations

from partita.planners.base import Found, register
from partita.planners.draft import Draft, whole_stages
from partita.planners.evaluate import Evaluator


@register("single", cost="cheap")
def plan_single(evaluator: Evaluator) -> Found:
    """The whole network on the best single device, but for layers that must stay elsewhere."""
    return Found(evaluator.best(single_drafts(evaluator)))


def single_drafts(evaluator: Evaluator) -> list[Draft]:
    """Return the whole network on each device."""
    outline = evaluator.outline
    return [whole_stages(outline, 0, len(outline), device) for device in evaluator.devices]
