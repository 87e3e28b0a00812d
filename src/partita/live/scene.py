"""What is known of a plan before it runs: its prediction, and what would gain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from partita.cluster import Cluster
from partita.cost import CostModel
from partita.execution import Report
from partita.live.snapshot import Expectation, Gain, Scene
from partita.plan import Plan
from partita.planners.gains import Outcome, what_if
from partita.planners.options import options_of
from partita.planners.sizing import offered
from partita.planners.variations import speed_links, usual_variations
from partita.report.bottleneck import Where, busy_shares, find_bottleneck

#: Seconds of the searches for what would gain, some six of them. Not tuned.
FORESIGHT_S = 8.0
#: A gain below this is none: predictions of two plans are compared. Not tuned.
_LEAST_GAIN = 1.02


@dataclass(frozen=True)
class Foresight:
    """What changes would gain.

    Attributes:
        advice: The bottleneck, and what more of it would gain, in words; empty without one.
        gains: Of it, and of the usual changes, the most first.
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


def foresee(
    cost: CostModel, plan: Plan, predicted: Report, *, most_s: float = FORESIGHT_S
) -> Foresight:
    """What more of the bottleneck, and the usual changes, would gain over a plan.

    Args:
        predicted: The plan's run.
        most_s: Seconds of all searches.

    Raises:
        PlanError: The plan cannot be priced.
    """
    where = find_bottleneck(busy_shares(predicted))
    options = replace(options_of(plan), budget_s=most_s)
    variations = usual_variations(cost, options)
    if where is None:
        more = ""
    elif len(where) == 1:
        more = f"one more {_kind_of(cost.cluster, where[0])}"
    else:
        faster = speed_links(cost, options, factor=2.0, pair=(where[0], where[1]))
        variations.append(faster)
        more = faster.name
    outcomes = what_if(cost, plan, variations=variations, options=options).outcomes
    gains = tuple(_gain(outcome) for outcome in outcomes if outcome.plan is not None)
    known = {gain.name: gain.gain for gain in gains}
    if where is None or more not in known:
        return Foresight(gains=gains)
    what = "one more board like it" if len(where) == 1 else "twice its rate"
    gain = known[more]
    verdict = f"would give {gain:.2g}x" if gain >= _LEAST_GAIN else "would gain nothing"
    return Foresight(((where, f"{what} {verdict}"),), gains)


def _kind_of(cluster: Cluster, name: str) -> str:
    """What a device is called among those on offer."""
    device = cluster.device(name)
    for kind, one in offered(cluster).items():
        if (one.kind, one.profile) == (device.kind, device.profile):
            return kind
    return name


def _gain(outcome: Outcome) -> Gain:
    most = outcome.most_gain if isfinite(outcome.most_gain) else None
    return Gain(outcome.variation.name, outcome.gain, most)
