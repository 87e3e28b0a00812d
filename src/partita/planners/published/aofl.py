"""AOFL: the fused blocks that a linear model of devices and links finds best.

Source: Zhou et al., "Adaptive parallel execution of deep neural networks on heterogeneous edge
devices", SEC 2019 (adaptive optimally fused layers); as a baseline in DistrEdge, section V-A.
"""

from __future__ import annotations

from collections.abc import Iterator

from partita.planners.drafts.draft import Draft
from partita.planners.drafts.row_division import PrefixDivision, divide
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.fused_blocks import FusedBlocks
from partita.planners.published.linear_view import LinearView, decide, largest_share, last_rows
from partita.planners.registry import Chosen, register


@register("aofl", cost="published")
def plan_aofl(evaluator: Evaluator) -> Chosen:
    """AOFL: fused blocks in proportion to capability and network, the best by a linear model.

    Sees capabilities and bandwidths. The original tries every set of boundaries; the model is a sum
    over blocks, so that dynamic programming finds the same set. It gathers at the host after each
    block; here neighbours exchange what they miss.

    Raises:
        InfeasibleError: No device can hold its part.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """The blocks and shares with the least linear seconds."""
    best: tuple[float, Draft] | None = None
    for shares in dict.fromkeys(_share_vectors(view)):
        tail_device = largest_share(view, view.devices, shares)
        ends, seconds = FusedBlocks(view, shares).best_ends(tail_device)
        if best is None or seconds < best[0]:
            division = PrefixDivision(view.devices, shares, ends, tail_device)
            best = seconds, divide(view.outline, division)
    return best[1] if best else ()


def _share_vectors(view: LinearView) -> Iterator[tuple[float, ...]]:
    """Yield shares by capability alone, and by capability with the way in and out."""
    yield tuple(view.capability[device] for device in view.devices)
    end = last_rows(view.outline)
    work = view.work(0, end)
    image, sent = view.crossing(0).gathered, view.crossing(end)
    unit_s = [
        view.compute_s(device, work)
        + view.transfer_s(view.requester, device, image)
        + view.transfer_s(device, view.requester, sent.gathered + sent.answered)
        for device in view.devices
    ]
    if min(unit_s) > 0:
        yield tuple(1.0 / seconds for seconds in unit_s)
