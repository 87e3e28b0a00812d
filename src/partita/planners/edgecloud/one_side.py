"""All in the cloud, or all on the edge: what every split is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from partita.planners.edgecloud.quantised_split import choose_uniform
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


@dataclass(frozen=True)
class EdgeOnlySettings:
    """What the edge computes with.

    Attributes:
        bits: Of all weights and activations; None leaves them as they are.
    """

    bits: int | None = None


EDGE_ONLY = EdgeOnlySettings()


@register("edge_only", cost="published", settings=EDGE_ONLY)
def plan_edge_only(evaluator: Evaluator) -> Chosen:
    """The whole network on the requester."""
    roles = find_roles(evaluator)
    bits = read_settings(EDGE_ONLY, "edge_only", evaluator.options.method).bits
    if bits is not None:
        return choose_uniform(evaluator, roles, evaluator.outline.order, bits)
    draft = split_draft(evaluator, roles, range(len(evaluator.outline)))
    return Chosen(evaluator.best([draft], advice=NOT_DIVIDED))
