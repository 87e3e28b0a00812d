"""Offload: everything on the device with the best hardware.

Source: DistrEdge, section V-A, baseline 7: "the service provider with the best computing hardware".
"""

from __future__ import annotations

from partita.planners.drafts.draft import Draft, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.linear_view import ALIKE, LinearView, decide
from partita.planners.registry import Chosen, register


@register("offload", cost="published")
def plan_offload(evaluator: Evaluator) -> Chosen:
    """Offload: the whole network on the device with most capability, then bandwidth.

    Sees capability; bandwidth only decides between equal hardware.

    Raises:
        InfeasibleError: No device can hold the network.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """The whole network on one device."""
    most = max(view.capability[device] for device in view.devices)
    alike = [d for d in view.devices if view.capability[d] >= most * (1 - ALIKE)]
    best = max(alike, key=lambda device: _reach(view, device))
    return whole_stages(view.outline, 0, len(view.outline), best)


def _reach(view: LinearView, device: str) -> float:
    """The bandwidth from the requester; infinite for the requester itself."""
    if device == view.requester:
        return float("inf")
    return view.bandwidth.get((view.requester, device), 0.0)
