"""DeepThings: one fused block at the beginning, in equal parts; the rest on the gateway.

Source: Zhao et al., "DeepThings: Distributed adaptive deep learning inference on
resource-constrained IoT edge clusters", TCAD 2018 (fused tile partitioning); as a baseline in
DistrEdge, section V-A.
"""

from __future__ import annotations

from partita.planners.drafts.draft import Draft, whole_stages
from partita.planners.drafts.row_division import PrefixDivision, divide
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.fused_blocks import FusedBlocks
from partita.planners.published.linear_view import LinearView, decide
from partita.planners.registry import Chosen, register


@register("deepthings", cost="published")
def plan_deepthings(evaluator: Evaluator) -> Chosen:
    """DeepThings: the first layers as one fused block in equal rows, the rest on the gateway.

    Sees the number of devices, their mean capability and the mean bandwidth: it takes devices and
    links for equal. The original cuts a grid and steals work; here rows are cut, once. Its end of
    the block, a setting of the user there, is the best of its own linear model.

    Raises:
        InfeasibleError: No device can hold its part.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """The best prefix in equal shares."""
    outline, devices = view.outline, view.devices
    gateway = view.requester if view.requester in devices else view.fastest
    runs = outline.row_runs()
    if not runs:
        return whole_stages(outline, 0, len(outline), gateway)
    shares = [1.0] * len(devices)
    blocks = FusedBlocks(view.averaged(), shares)
    start, stop = runs[0]
    ends = [place for place in blocks.places if start < place <= stop]
    end = min(ends, key=lambda p: (blocks.block_s(start, p) + blocks.rest_s(p, gateway), p))
    return divide(outline, PrefixDivision(devices, tuple(shares), (end,), gateway))
