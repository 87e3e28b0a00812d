"""What is known of a plan before it runs: its prediction, and what would gain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.execution import Report
from partita.live.snapshot import Expectation, Gain, Scene
from partita.plan import Plan
from partita.planners.gains import PLANNED_ANEW, Outcome, what_if
from partita.planners.options import options_of
from partita.planners.variations import FASTER, name_board, name_faster, name_more
from partita.report.bottleneck import Where, busy_shares

#: Seconds of the searches for what would gain, some six of them. Not tuned.
FORESIGHT_S = 8.0
#: A gain below this is none: predictions of two plans are compared. Not tuned.
_LEAST_GAIN = 1.02


@dataclass(frozen=True)
class Foresight:
    """What changes would gain.

    Attributes:
        advice: Per device and link, what more of it would gain, in words, for when it is the
            bottleneck.
        gains: Of the usual changes, the most first.
    """

    advice: tuple[tuple[Where, str], ...] = ()
    gains: tuple[Gain, ...] = ()


def make_scene(
    title: str,
    plan: Plan,
    cluster: Cluster,
    predicted: Report | None,
    foresight: Foresight | None = None,
) -> Scene:
    """A scene.

    Args:
        title: Which model on which cluster.
        predicted: Its run, with enough requests for a steady state.
        foresight: Of :func:`foresee`.
    """
    expected = None if predicted is None else expect(predicted)
    pairs = [] if expected is None else [(a, b) for a, b, _ in expected.bytes_per_s]
    links = [cluster.link(*pair) for pair in pairs]
    rates = tuple(
        (link.source, link.target, link.bandwidth_at(0.0)) for link in links if link is not None
    )
    kinds = {device.name: device.kind for device in cluster.devices}
    known = foresight or Foresight()
    return Scene(title, plan, kinds, rates, expected, known.advice, known.gains)


def expect(predicted: Report) -> Expectation:
    """What a predicted run says of every second."""
    shares = busy_shares(predicted)
    return Expectation(
        predicted.images_per_second,
        predicted.quantile_s(0.5),
        predicted.quantile_s(0.99),
        {use.name: shares.get((use.name,), 0.0) for use in predicted.devices},
        tuple(
            (use.source, use.target, use.bytes / predicted.makespan_s) for use in predicted.links
        ),
    )


def foresee(cost: CostModel, plan: Plan, *, most_s: float = FORESIGHT_S) -> Foresight:
    """What the usual changes would gain over a plan, and what is said of it at each lane.

    Args:
        most_s: Seconds of all searches.

    Raises:
        PlanError: The plan cannot be priced.
    """
    options = replace(options_of(plan), budget_s=most_s)
    outcomes = what_if(cost, plan, options=options).outcomes
    gains = tuple(_gain(outcome) for outcome in outcomes if outcome.plan is not None)
    known = {gain.name: gain.gain for gain in gains}
    cluster, alone = cost.cluster, known[PLANNED_ANEW]
    lanes = {(name,): name_more(name_board(cluster, name)) for name in cluster.providers}
    told: dict[Where, str] = {
        where: _word("one more board like it", known[name] / alone)
        for where, name in lanes.items()
        if name in known
    }
    faster = name_faster(FASTER)
    if faster in known:
        words = _word(faster, known[faster] / alone)
        told |= dict.fromkeys((link.pair for link in cluster.links), words)
    return Foresight(tuple(told.items()), gains)


def _word(what: str, gain: float) -> str:
    return f"{what} would " + (f"give {gain:.2g}x" if gain >= _LEAST_GAIN else "gain nothing")


def _gain(outcome: Outcome) -> Gain:
    most = outcome.most_gain if isfinite(outcome.most_gain) else None
    return Gain(outcome.variation.name, outcome.gain, most)
