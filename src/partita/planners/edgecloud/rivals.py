"""The network as it is, between an edge and a cloud: what widths and cuts are weighed against."""

from __future__ import annotations

from math import inf
from typing import Literal

from partita.planners.drafts.draft import Draft
from partita.planners.edgecloud.network import Network, network_of
from partita.planners.edgecloud.quantised_split import FLOAT_BITS
from partita.planners.edgecloud.roles import Roles, split_draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.result import TradeOff


def float_network(evaluator: Evaluator) -> Network:
    """The network's elements, its inputs floats."""
    return network_of(evaluator.graph, evaluator.outline.order, input_bits=FLOAT_BITS)


def list_rivals(evaluator: Evaluator, roles: Roles, exact: Draft) -> list[TradeOff]:
    """The best cut, all in the cloud and all on the edge, of those that are possible.

    Args:
        exact: The best cut; empty where there is none.
    """
    count = len(evaluator.outline)
    ends = [split_draft(evaluator, roles, range(stop)) for stop in (0, count)]
    rivals = []
    for draft in dict.fromkeys(draft for draft in (exact, *ends) if draft):
        latency_s = evaluator.latency_of(draft)
        if latency_s < inf:
            cut = sum(part.stop - part.start for part in draft if part.devices == (roles.edge,))
            use = evaluator.ranges.memory(0, cut, roles.edge) if cut else None
            held = use.total - use.overhead if use else 0
            rivals.append(TradeOff(name_kind(cut, count), latency_s, 0.0, cut, held))
    return rivals


def name_kind(cut: int, count: int) -> Literal["cloud", "edge", "split"]:
    """Where the layers are, of which so many are on the edge."""
    if cut == count:
        return "edge"
    return "split" if cut else "cloud"
