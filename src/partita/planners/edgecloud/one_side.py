"""All in the cloud, or all on the edge: what every split is compared with."""

from __future__ import annotations

from partita.planners.edgecloud.roles import ROLES, find_roles, split_draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.planners.simple.single import NOT_DIVIDED


@register("cloud_only", cost="published", settings=ROLES)
def plan_cloud_only(evaluator: Evaluator) -> Chosen:
    """The whole network on the fastest device that can talk with the requester, but for it."""
    cloud = read_settings(ROLES, "cloud_only", evaluator.options.method).cloud
    draft = split_draft(evaluator, find_roles(evaluator, cloud), ())
    return Chosen(evaluator.best([draft], advice=NOT_DIVIDED))


@register("edge_only", cost="published")
def plan_edge_only(evaluator: Evaluator) -> Chosen:
    """The whole network on the requester."""
    roles = find_roles(evaluator)
    draft = split_draft(evaluator, roles, range(len(evaluator.outline)))
    return Chosen(evaluator.best([draft], advice=NOT_DIVIDED))
