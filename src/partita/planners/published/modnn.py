"""MoDNN: layer by layer, rows in proportion to capability.

Source: Mao et al., "MoDNN: Local distributed mobile computing system for deep neural network",
DATE 2017 (biased one-dimensional partition); as a baseline in DistrEdge, section V-A.
"""

from __future__ import annotations

from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.linear_view import LinearView, decide, divide_layers
from partita.planners.registry import Chosen, register


@register("modnn", cost="published")
def plan_modnn(evaluator: Evaluator) -> Chosen:
    """MoDNN: layer by layer, rows in proportion to the devices' capability.

    Sees capabilities, no network. The original cuts the longer edge of each map, gathers at the
    group owner after each layer, and cuts dense layers sparsely; here rows are cut, neighbours
    exchange their halo directly, and the dense layers run on the device with the largest share.

    Raises:
        InfeasibleError: No device can hold its part.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """Every layer divided in proportion to capability."""
    return divide_layers(view, view.devices, [view.capability[device] for device in view.devices])
