"""Runs on the cluster, for methods that learn from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from partita.api import Access, open_endpoint
from partita.cli.inputs import draw_inputs
from partita.cli.output import say
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.errors import InputError
from partita.fabric import Endpoint
from partita.leader import deploy
from partita.plan import Plan
from partita.planners import get_planner, planner_names

#: Runs of each plan; the median counts.
RUNS = 3


def check_learns(planner: str) -> None:
    """Raise where a planner does not learn from runs.

    Raises:
        InputError: Names those that do.
    """
    if get_planner(planner).cost != "training":
        allowed = [name for name in planner_names() if get_planner(name).cost == "training"]
        raise InputError(
            f"--real is for planners that learn from runs ({', '.join(allowed)}), not for"
            f" '{planner}'. Use 'partita run' to measure its plan.",
            subject="--real",
        )


@contextlib.contextmanager
def open_measure(cost: CostModel, access: Access, seed: int) -> Iterator[Callable[[Plan], float]]:
    """Yield a function that runs a plan on the cluster and returns its seconds per request.

    Args:
        cost: The graph, and the cluster whose workers run; emulated here without addresses.
        seed: Of the inputs.

    Raises:
        RunError: A worker is missing, refuses or fails.
    """
    say("each plan is run on the cluster")
    with open_endpoint(cost.cluster, access) as endpoint:
        yield make_measure(cost, endpoint, seed)


def make_measure(cost: CostModel, endpoint: Endpoint, seed: int) -> Callable[[Plan], float]:
    """A function that runs a plan over an endpoint; median seconds of some requests."""
    inputs = draw_inputs(cost.graph.input_specs, 1 + RUNS, seed)

    def measure(plan: Plan) -> float:
        with deploy(compile_plan(cost.graph, plan, cost.cluster), endpoint) as session:
            session.run(inputs[:1], in_flight=1)
            session.run(inputs[1:], in_flight=1)
            return session.report().quantile_s(0.5)

    return measure
