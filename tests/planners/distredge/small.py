"""A small network and its split process: what tests of the learner share."""

from __future__ import annotations

from partita.graph import Graph
from partita.planners import Evaluator, PlanOptions
from partita.planners.distredge.process import SplitProcess, find_process
from partita.planners.distredge.settings import REPAIRED
from tests.planners.distredge.vgg import make_vgg
from tests.planners.fakes import FakeCost, make_cost, make_gated, make_residual

#: Few and small updates, so that a training takes a moment.
QUICK = {"episodes": "12", "batch": "8", "decisions": "10"}


def small_cost(devices: int = 3, graph: Graph | None = None, **more: float) -> FakeCost:
    """Return costs of a small VGG on unequal devices behind links that matter."""
    rates = [(2e7, 4e7, 1e7, 3e7)[number % 4] for number in range(devices)]
    network = make_vgg(((8, 8), (16, 16)), 32) if graph is None else graph
    return make_cost(network, *rates, **{"bandwidth": 3e7, "latency": 1e-4, **more})


def small_process(cost: FakeCost | None = None, seed: int = 0) -> SplitProcess:
    """Return the split process of the volumes that LC-PSS finds."""
    evaluator = Evaluator(cost or small_cost(), PlanOptions(seed=seed))
    process = find_process(evaluator, REPAIRED)
    assert process is not None
    return process


def quick_method(*planners: str, **more: str) -> dict[str, str]:
    """Return settings that make trainings short, for planners of these names."""
    return {
        f"{planner}.{name}": value
        for planner in planners
        for name, value in {**QUICK, **more}.items()
    }


OTHER_GRAPHS = {"residual": lambda: make_residual(1), "gated": make_gated}
