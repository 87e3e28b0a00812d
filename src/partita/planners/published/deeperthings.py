"""DeeperThings: all layers with rows in several fused blocks, in equal parts.

Source: Stahl et al., "DeeperThings: Fully distributed CNN inference on resource-constrained edge
devices", IJPP 2021; as a baseline in DistrEdge, section V-A.
"""

from __future__ import annotations

from partita.planners.drafts.draft import Draft
from partita.planners.drafts.row_division import PrefixDivision, divide
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.fused_blocks import FusedBlocks
from partita.planners.published.linear_view import LinearView, decide, last_rows
from partita.planners.registry import Chosen, register


@register("deeperthings", cost="published")
def plan_deeperthings(evaluator: Evaluator) -> Chosen:
    """DeeperThings: several fused blocks in equal rows, ended where its linear model says.

    Sees the number of devices, their mean capability and the mean bandwidth: it takes devices and
    links for equal. The original also divides dense layers by their weights; here they run on one
    device, the one with most capability since all shares are equal.

    Raises:
        InfeasibleError: No device can hold its part.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """The best blocks in equal shares, up to the last layer with rows."""
    shares = [1.0] * len(view.devices)
    blocks = FusedBlocks(view.averaged(), shares)
    ends, _ = blocks.best_ends(view.fastest, until=last_rows(view.outline))
    return divide(view.outline, PrefixDivision(view.devices, tuple(shares), ends, view.fastest))
