"""MeDNN: layer by layer, each row to the device that would finish it first.

Source: Mao et al., "MeDNN: A distributed mobile system with enhanced partition and deployment for
large-scale DNNs", ICCAD 2017 (greedy two-dimensional partition); as a baseline in DistrEdge,
section V-A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.linear_view import LinearView, decide, divide_layers
from partita.planners.registry import Chosen, register


@register("mednn", cost="published")
def plan_mednn(evaluator: Evaluator) -> Chosen:
    """MeDNN: layer by layer, rows dealt greedily so that linear finish times balance.

    Sees capabilities, no network. The original deals cells of a grid and also prunes the network;
    here rows are dealt, nothing is pruned, and the rest is as with MoDNN.

    Raises:
        InfeasibleError: No device can hold its part.
    """
    return decide(evaluator, choose_draft)


def choose_draft(view: LinearView) -> Draft:
    """Every layer divided by its own greedy deal."""
    rates = [view.capability[device] for device in view.devices]
    plain = divide_layers(view, view.devices, rates)
    return tuple(
        replace(stage, cuts=(0, *accumulate(deal_rows(stage.cuts[-1], rates))))
        if stage.axis == "rows"
        else stage
        for stage in plain
    )


def deal_rows(rows: int, rates: Sequence[float]) -> list[int]:
    """How many rows each device gets so that the last to finish does so soonest.

    Whole rows of the proportional share first; each that is left goes to the device that would have
    finished with it first.

    >>> deal_rows(7, [3.0, 1.0])
    [5, 2]
    """
    total = sum(rates)
    widths = [int(rows * rate / total) for rate in rates]
    for _ in range(rows - sum(widths)):
        number = min(range(len(rates)), key=lambda i: ((widths[i] + 1) / rates[i], i))
        widths[number] += 1
    return widths
