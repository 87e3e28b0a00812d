"""A plan with what it is predicted to cost, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from partita.exactness.accuracy import Accuracy
from partita.plan import Plan
from partita.regions import LayerBits
from partita.units import format_seconds

#: A gain over the best single device that is not more than this is no real one: predictions of
#: plans are off by 3 % in the median (docs/benchmarks.md), and two of them are compared.
REAL_GAIN = 0.05
#: A lower bound of less than this part of the plan's latency says little. Not tuned.
_LOOSE_BOUND = 1 / 3

Status = Literal["optimal", "feasible", "heuristic", "cut short"]


@dataclass(frozen=True)
class Estimate:
    """What a plan is predicted to cost.

    Attributes:
        latency_s: One request alone, from its feed to its answer.
        bottleneck_s: Largest busy time per request over all lanes of devices and links.
        memory_bytes: Per device: weights, the engine's copies, and the most bytes held at a time.
        energy_joules: Of all devices' computing for one request.
        messages: Pieces that are sent for one request.
        in_flight: Requests under way at the same time.
        steady_s: Seconds per request while inputs never run out, simulated; None for one request at
            a time without replicas, and in a search, where what it is not below must do.
    """

    latency_s: float
    bottleneck_s: float
    memory_bytes: Mapping[str, int]
    energy_joules: float
    messages: int
    in_flight: int = 1
    steady_s: float | None = None

    @property
    def period_s(self) -> float:
        """Seconds per request under steady load."""
        if self.steady_s is not None:
            return self.steady_s
        return max(self.bottleneck_s, self.latency_s / self.in_flight)

    @property
    def images_per_second(self) -> float:
        """Requests answered per second under steady load."""
        return 1.0 / self.period_s if self.period_s > 0 else float("inf")


def is_worth(alone: float, divided: float) -> bool:
    """Whether a division beats a single device by more than the error of predictions.

    >>> is_worth(1.03, 1.0), is_worth(1.2, 1.0)
    (False, True)
    """
    return alone > (1 + REAL_GAIN) * divided


def describe_bound(bound_s: float, latency_s: float) -> str:
    """A lower bound in words, which say so where it is so far below a plan that it says little.

    >>> describe_bound(0.2, 0.5), describe_bound(0.1, 0.5)
    ('200 ms', '100 ms (a loose bound)')
    """
    is_loose = bound_s < _LOOSE_BOUND * latency_s
    return format_seconds(bound_s) + (" (a loose bound)" if is_loose else "")


def say_bound(bound_s: float, latency_s: float) -> str:
    """The end of a sentence about a plan's latency; nothing where no bound was proven."""
    words = describe_bound(bound_s, latency_s)
    return f", no plan can do better than {words}" if bound_s > 0 else ""


@dataclass(frozen=True)
class TradeOff:
    """A division between an edge and a cloud, with what it costs in accuracy.

    Attributes:
        kind: Where the layers are: all in the cloud, all on the edge, or on both.
        latency_s: Of one request: predicted for a plan that was priced, else estimated by sums.
        error: Sum of the errors of all that is quantised.
        edge_layers: How many layers the edge has.
        edge_bytes: Of their weights, as they are loaded, and the largest working set.
        bits: With how many bits layers compute; empty where the network is as it is.
        accuracy: As it was judged; None where it was not.
        is_chosen: Whether it is the plan.
        leaves: Whether some weights on the edge, and some of what its layers make, are left as
            they are beside those with bits.
    """

    kind: Literal["cloud", "edge", "split"]
    latency_s: float
    error: float
    edge_layers: int
    edge_bytes: int
    bits: Mapping[str, LayerBits] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    is_chosen: bool = False
    leaves: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Result:
    """A plan, and how good it is.

    Attributes:
        lower_bound_s: No plan has a smaller latency.
        status: ``optimal`` where the latency is the lower bound, or none of the plans that
            ``exhaustive`` tries is better (it tries no tiles and no replicas, takes devices in
            their order, and divides channels in quarters); ``feasible`` when a constraint leaves a
            plan but no measure of it; ``cut short`` when the budget ended a search.
        worth_splitting: Whether the plan beats the best single device by more than predictions are
            off, in what the objective measures; see :func:`is_worth`.
        best_single_s: Latency of the best single device; infinite where none can hold the network.
        evaluations: Plans that were priced.
        single: What the best single device costs by the objective; None where none can hold the
            network.
        note: Among which plans the planner's is the best, where it says so, and how many requests
            in flight memory has room for, where they are fewer than asked for.
        last_half_gain: The part by which the last half of the search made what is wanted smaller;
            None where nothing was known at half time.
        least_period_s: No plan takes less per request under steady load with as many requests in
            flight; None where throughput is not the objective.
        trade_offs: What the method chose from: ever later, then, of the network as it is,
            the best cut, all in the cloud and all on the edge, where possible.
        advice: Why the method chose so, in sentences.
    """

    plan: Plan
    estimate: Estimate
    lower_bound_s: float
    status: Status
    search_s: float
    worth_splitting: bool
    best_single_s: float
    evaluations: int
    single: Estimate | None = None
    note: str = ""
    last_half_gain: float | None = None
    least_period_s: float | None = None
    trade_offs: tuple[TradeOff, ...] = ()
    advice: tuple[str, ...] = ()

    def __repr__(self) -> str:
        stages = f"{len(self.plan.stages)} stages"
        return f"Result({self.plan.planner!r}, {self.status}, {stages}, {self.latency_s:.4g} s)"

    @property
    def latency_s(self) -> float:
        """Predicted latency of one request."""
        return self.estimate.latency_s

    @property
    def accuracy(self) -> Accuracy | None:
        """The plan's accuracy, where its method judged it."""
        return next((each.accuracy for each in self.trade_offs if each.is_chosen), None)

    @property
    def bottleneck_s(self) -> float:
        """Predicted largest busy time per request."""
        return self.estimate.bottleneck_s
