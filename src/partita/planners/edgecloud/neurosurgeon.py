"""Neurosurgeon: the network cut in two at one place of its order.

Source: Kang et al., "Neurosurgeon: collaborative intelligence between the cloud and mobile edge"
(2017), for networks with branches as AUTO-SPLIT, section 5.3: a topological order stands for the
chain, and all tensors that cross the place are sent. Here it sees the exact cost.
"""

from __future__ import annotations

from partita.planners.drafts.draft import Draft
from partita.planners.edgecloud.roles import (
    ROLES,
    Roles,
    find_roles,
    prefix_drafts,
    two_sides,
)
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings

#: Places that are priced exactly: those whose sums of seconds are least. Not tuned.
_MOST_PRICED = 16


@register("neurosurgeon", cost="published", settings=ROLES)
def plan_neurosurgeon(evaluator: Evaluator) -> Chosen:
    """The first layers on the requester, the rest on the fastest other device."""
    cloud = read_settings(ROLES, "neurosurgeon", evaluator.options.method).cloud
    roles = find_roles(evaluator, cloud)
    return Chosen(evaluator.best(best_prefixes(evaluator, roles)))


def best_prefixes(evaluator: Evaluator, roles: Roles) -> list[Draft]:
    """Prefixes of the order on the edge, those of least sums of seconds that fit its memory.

    Sums are those of the layers and of sending; of equal ones the shortest prefix comes first.
    """
    drafts = prefix_drafts(evaluator, roles)
    seconds = two_sides(evaluator, roles).prefix_s()
    order = sorted(range(len(drafts)), key=lambda stop: (seconds[stop], stop))
    fits = [stop for stop in order if _fits(evaluator, roles, stop)] or order
    return [drafts[stop] for stop in fits[:_MOST_PRICED]]


def _fits(evaluator: Evaluator, roles: Roles, stop: int) -> bool:
    """Whether edge and cloud have room for their parts, each alone."""
    problem, count = evaluator.problem, len(evaluator.outline)
    parts = ((0, stop, roles.edge), (stop, count, roles.cloud))
    return all(
        evaluator.ranges.memory(*part).total <= problem.limit_bytes(part[2])
        for part in parts
        if part[0] < part[1]
    )
