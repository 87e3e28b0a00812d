"""The best single device."""

from __future__ import annotations

from partita.planners.drafts.draft import Draft, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register


@register("single", cost="cheap")
def plan_single(evaluator: Evaluator) -> Chosen:
    """The whole network on the best single device, but for layers that must stay elsewhere."""
    return Chosen(evaluator.best(single_drafts(evaluator)))


def single_drafts(evaluator: Evaluator) -> list[Draft]:
    """The whole network on each device."""
    outline = evaluator.outline
    return [whole_stages(outline, 0, len(outline), device) for device in evaluator.devices]
