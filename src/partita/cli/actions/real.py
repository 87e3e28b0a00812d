"""Runs on the cluster, for methods that learn from them and for tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from partita.adapting.tuning import Tuned, TuningRound, tune
from partita.api import Access, open_endpoint
from partita.cli.inputs import draw_inputs
from partita.cli.output import say
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.execution import Report
from partita.fabric import Endpoint
from partita.leader import DeployOptions, deploy
from partita.plan import Plan
from partita.planners import PlanOptions, Result, find_plan, get_planner
from partita.units import format_seconds

#: Runs of each plan with one request in flight; the median counts.
RUNS = 3
#: Runs per request in flight where there are more: the pipeline fills and settles. Not tuned.
_RUNS_PER_FLIGHT = 4


def learns(planner: str) -> bool:
    """Whether a planner learns from runs itself; others are tuned."""
    return get_planner(planner).cost == "training"


@contextlib.contextmanager
def open_runs(cost: CostModel, access: Access, seed: int) -> Iterator[Callable[[Plan], Report]]:
    """Yield a function that runs a plan on the cluster and returns what was measured.

    Args:
        cost: The graph, and the cluster whose workers run; emulated here without addresses.
        seed: Of the inputs.

    Raises:
        RunError: A worker is missing, refuses or fails.
    """
    say("each plan is run on the cluster")
    with open_endpoint(cost.cluster, access) as endpoint:
        yield make_run(cost, endpoint, seed)


def make_run(cost: CostModel, endpoint: Endpoint, seed: int) -> Callable[[Plan], Report]:
    """A function that runs a plan over an endpoint, as many requests at a time as it allows."""
    options = DeployOptions(reference_s=cost.reference_s)

    def run(plan: Plan) -> Report:
        count = RUNS if plan.in_flight == 1 else _RUNS_PER_FLIGHT * plan.in_flight
        inputs = draw_inputs(cost.graph.input_specs, count, seed)
        with deploy(compile_plan(cost.graph, plan, cost.cluster), endpoint, options) as session:
            session.run(inputs[:1], in_flight=1)
            session.run(inputs, in_flight=plan.in_flight)
            return session.report()

    return run


def tune_plan(
    cost: CostModel, planner: str, options: PlanOptions, run: Callable[[Plan], Report]
) -> tuple[Tuned, Result]:
    """Plans, each run and made anew with what was measured; the result is of the best one.

    Raises:
        PlanError: There is no plan.
        RunError: A worker is missing, refuses or fails.
    """
    results: dict[int, Result] = {}

    def find(model: CostModel) -> Plan:
        result = find_plan(model, planner=planner, options=options)
        results[id(result.plan)] = result
        return result.plan

    def tell(done: TuningRound) -> None:
        say(
            f"round {len(results)}: {format_seconds(done.seconds)} per request,"
            f" {format_seconds(done.predicted_s)} predicted"
        )

    tuned = tune(cost, find, run, progress=tell)
    return tuned, results[id(tuned.best.plan)]
