"""QDMP: the least cut of the network between edge and cloud.

Source: Zhang et al., "Towards real-time cooperative deep inference over the cloud and edge end
devices" (2020), as AUTO-SPLIT, section 2.2, tells of it. DADS (Hu et al., 2019) finds the same cut
where both see the network with its pointwise nodes fused, as here; see :mod:`.min_cut`.

What is least is a sum: of layers one after the other, then of all that is sent. Where both devices
work at the same time, or a cut needs several fragments on one, the plan's price is another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from partita.errors import InfeasibleError
from partita.planners.edgecloud.min_cut import least_cut
from partita.planners.edgecloud.neurosurgeon import best_prefixes
from partita.planners.edgecloud.quantised_split import choose_uniform
from partita.planners.edgecloud.roles import RoleSettings, find_roles, split_draft, two_sides
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.quantisation.bits import Width
from partita.units import format_bytes, format_seconds


@dataclass(frozen=True)
class QdmpSettings(RoleSettings):
    """Who has which part, and what the edge keeps.

    Attributes:
        whole: Whether the edge must have room for the whole network, as in the original, which cuts
            it elsewhere when the link changes; else for its part alone.
        bits: Of all weights and activations on the edge, once the cut is chosen; None leaves them
            as they are.
    """

    whole: bool = False
    bits: Width | None = None


QDMP = QdmpSettings()


@register("qdmp", cost="published", settings=QDMP, quantises=True)
def plan_qdmp(evaluator: Evaluator) -> Chosen:
    """The least cut between the requester and the fastest other device, each tensor sent once.

    Where it does not fit in memory the best prefix of the order that does.

    Raises:
        InfeasibleError: Nothing fits, or the edge must keep the network and has no room for it.
    """
    settings = read_settings(QDMP, "qdmp", evaluator.options.method)
    roles = find_roles(evaluator, settings.cloud)
    if settings.whole:
        _check_whole(evaluator, roles.edge)
    sides = two_sides(evaluator, roles)
    edge = least_cut(sides) if roles.edge == evaluator.requester else None
    if edge is not None:
        if settings.bits is not None:
            names = [evaluator.outline.order[place] for place in sorted(edge)]
            return choose_uniform(evaluator, roles, names, settings.bits)
        draft = split_draft(evaluator, roles, edge)
        if evaluator.score(draft)[0] < inf:
            least = format_seconds(sides.seconds(edge))
            return Chosen(draft, note=f"every cut in two, {least} by sums")
    return Chosen(evaluator.best(best_prefixes(evaluator, roles)))


def _check_whole(evaluator: Evaluator, edge: str) -> None:
    needs = evaluator.ranges.memory(0, len(evaluator.outline), edge).total
    has = evaluator.problem.limit_bytes(edge)
    if needs > has:
        raise InfeasibleError(
            f"The whole network does not fit on device '{edge}': needs {format_bytes(needs)},"
            f" device has {format_bytes(has)}. Let it keep its part alone: --set qdmp.whole=no.",
            subject=edge,
        )
