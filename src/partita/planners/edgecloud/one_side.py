"""All in the cloud, or all on the edge: what every split is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from partita.planners.edgecloud.quantised_split import choose_uniform
from partita.planners.edgecloud.roles import RoleSettings, find_roles, split_draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.quantisation.bits import Width


@dataclass(frozen=True)
class CloudOnlySettings(RoleSettings):
    """Who is the cloud, and what is sent.

    Attributes:
        input_bits: Of each number of the network's inputs, 8 for pictures of bytes; None leaves
            them as they are.
    """

    input_bits: Width | None = None


CLOUD_ONLY = CloudOnlySettings()


@register("cloud_only", cost="published", settings=CLOUD_ONLY, quantises=True)
def plan_cloud_only(evaluator: Evaluator) -> Chosen:
    """The whole network on the fastest device that can talk with the requester, but for it."""
    settings = read_settings(CLOUD_ONLY, "cloud_only", evaluator.options.method)
    roles = find_roles(evaluator, settings.cloud)
    if settings.input_bits is not None:
        bits = settings.input_bits
        return choose_uniform(evaluator, roles, (), bits, input_bits=bits)
    draft = split_draft(evaluator, roles, ())
    return Chosen(evaluator.best([draft]))


@dataclass(frozen=True)
class EdgeOnlySettings:
    """What the edge computes with.

    Attributes:
        bits: Of all weights and activations; None leaves them as they are.
    """

    bits: Width | None = None


EDGE_ONLY = EdgeOnlySettings()


@register("edge_only", cost="published", settings=EDGE_ONLY, quantises=True)
def plan_edge_only(evaluator: Evaluator) -> Chosen:
    """The whole network on the requester."""
    roles = find_roles(evaluator)
    bits = read_settings(EDGE_ONLY, "edge_only", evaluator.options.method).bits
    if bits is not None:
        return choose_uniform(evaluator, roles, evaluator.outline.order, bits)
    draft = split_draft(evaluator, roles, range(len(evaluator.outline)))
    return Chosen(evaluator.best([draft]))
