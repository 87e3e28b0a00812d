"""Planning, running and planning anew with what was measured, until it gains no more.

Source: Hadidi et al., "Collaborative execution of deep neural networks on Internet of Things
devices", Procedure 1: deploy, monitor the latency of each device, repeat. The
stopping rule is ours: a round that gains below 2 %, or ten rounds. So is that a device which the
plan leaves idle is measured, too: one that is believed too slow would stay idle for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from partita.cost import CostModel, update_cost
from partita.errors import PlanError
from partita.execution import Conditions, Report
from partita.plan import Plan
from partita.planners.find import find_plan
from partita.planners.options import PlanOptions, options_of
from partita.simulation import predict

#: Runs a plan and returns what was measured.
RunPlan = Callable[[Plan], Report]
MOST_ROUNDS = 10
LEAST_GAIN = 0.02
#: Less computing than this in a run says nothing of a device: clocks and schedulers are as coarse.
_LEAST_BUSY_S = 0.001


@dataclass(frozen=True)
class TuningRound:
    """One plan that ran.

    Attributes:
        plan: What ran.
        predicted: Its run, priced with what was known before.
        measured: Its run.
        seconds: Measured per request: its latency, or with several in flight the run's seconds over
            its requests.
        slowness: Per device that has computed by now, seconds per second of its profile.
    """

    plan: Plan
    predicted: Report
    measured: Report
    seconds: float
    slowness: Mapping[str, float]

    @property
    def predicted_s(self) -> float:
        """What ``seconds`` was predicted to be."""
        return _seconds(self.plan, self.predicted)


@dataclass(frozen=True)
class Tuned:
    """All rounds, and the one whose plan measured best.

    Attributes:
        cost: The cost model with all that was measured.
    """

    rounds: tuple[TuningRound, ...]
    cost: CostModel

    @property
    def best(self) -> TuningRound:
        """The round with the fewest seconds per request."""
        return min(self.rounds, key=lambda done: done.seconds)


def tune(
    cost: CostModel,
    find: Callable[[CostModel], Plan],
    run: RunPlan,
    *,
    most_rounds: int = MOST_ROUNDS,
    progress: Callable[[TuningRound], None] = lambda done: None,
) -> Tuned:
    """Plan, run and refit the speeds of devices until a round gains below 2 %.

    Args:
        cost: Priced with profiles that may be wrong.
        find: The planner, asked with the refitted costs.
        run: Runs on the cluster.
        progress: Called after each round.

    Raises:
        PlanError: There is no plan.
        RunError: A run failed.
    """
    slowness: dict[str, float] = {}
    rounds: list[TuningRound] = []
    best_s = float("inf")
    while len(rounds) < most_rounds:
        model = update_cost(cost, Conditions(slowness=slowness))
        done = _run_round(model, find(model), run, slowness)
        rounds.append(done)
        progress(done)
        if done.seconds > best_s * (1 - LEAST_GAIN):
            break
        best_s = min(best_s, done.seconds)
        for plan in _plans_of_idle(model, done.plan, slowness):
            _run_round(model, plan, run, slowness)
    return Tuned(tuple(rounds), update_cost(cost, Conditions(slowness=slowness)))


def _run_round(
    model: CostModel, plan: Plan, run: RunPlan, slowness: dict[str, float]
) -> TuningRound:
    """Run a plan, and put what it says of its devices into ``slowness``."""
    measured = run(plan)
    requests = len(measured.latencies_s)
    predicted = predict(model, plan, requests=requests, keep_spans=False)
    expected = _expected_s(predicted, measured)
    for use in measured.devices:
        busy_s = use.busy_s or 0.0
        if min(busy_s, expected.get(use.name, 0.0)) >= _LEAST_BUSY_S:
            factor = busy_s / expected[use.name]
            slowness[use.name] = slowness.get(use.name, 1.0) * factor
    return TuningRound(plan, predicted, measured, _seconds(plan, measured), dict(slowness))


def _expected_s(predicted: Report, measured: Report) -> dict[str, float]:
    """How long each device was expected to compute, as often as it did.

    Of replicas one that is slower than believed computes less often, too.
    """
    ran = {(use.device, use.step): use.count for use in measured.steps}
    expected = {}
    for device in predicted.devices:
        steps = [use for use in predicted.steps if use.device == device.name]
        usual_s = sum(use.count * use.p50_s for use in steps)
        counts = (ran.get((use.device, use.step), 0) if ran else use.count for use in steps)
        ran_s = sum(count * use.p50_s for count, use in zip(counts, steps, strict=True))
        expected[device.name] = (device.busy_s or 0.0) * (ran_s / usual_s if usual_s else 1.0)
    return expected


def _seconds(plan: Plan, report: Report) -> float:
    """Seconds per request: a request alone, or many at a time."""
    if plan.in_flight == 1:
        return report.quantile_s(0.5)
    return report.makespan_s / len(report.latencies_s)


def _plans_of_idle(model: CostModel, plan: Plan, known: Mapping[str, float]) -> Iterator[Plan]:
    """A plan on each device that has not computed yet, where it can hold the network."""
    asked = options_of(plan).devices
    for device in model.cluster.providers:
        if device in known or (asked is not None and device not in asked):
            continue
        try:
            yield find_plan(model, planner="single", options=PlanOptions(devices=(device,))).plan
        except PlanError:
            continue  # nothing is known of it, as before
