"""A session that is asked without pause while something happens to its workers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from benchmarks.recovery import INPUTS, Load
from tests.planners.fakes import make_chain

from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.api import open_endpoint
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.execution.adapt import LOSSES_ONLY
from partita.leader import DeployOptions, Session, deploy
from partita.planners import find_plan

#: The requester computes nothing, so that what answers is whichever of both others is there.
DEVICES = tuple(
    Device(name, kind="raspberry-pi-4", computes=name != "d0") for name in ("d0", "d1", "d2")
)
#: Nothing hangs here; a busy machine is not to be taken for that.
_OPTIONS = DeployOptions(silence_s=30.0, trace=False)
_PATIENCE_S = 60.0


@contextlib.contextmanager
def under_load(cluster: Cluster) -> Iterator[tuple[Session, Load]]:
    """A session on running workers, and what it answers; afterwards no answer was wrong or lost."""
    graph = make_chain(3, height=12)
    cost = CostModel(graph, cluster)
    plan = find_plan(cost, planner="equal_rows").plan
    planning = Replanner(cost, plan, make_finder(plan, "best", 0.5))
    (spec,) = graph.input_specs
    rng = np.random.default_rng(0)
    given = [{spec.name: rng.standard_normal(spec.shape, np.float32)} for _ in range(INPUTS)]
    with (
        open_endpoint(cluster) as endpoint,
        deploy(
            compile_plan(graph, plan, cluster),
            endpoint,
            _OPTIONS,
            replan=planning.recover,
            adapting=(planning, replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"))),
        ) as session,
    ):
        expected = [tuple(answer.values()) for answer in session.run(given)]
        session.begin_traces()
        load = Load(session, given, expected)
        load.start()
        try:
            yield session, load
        finally:
            load.end()
    assert load.answers.error == ""
    assert load.answers.wrong == 0
    assert len(load.answers.times) == load.answers.asked


def wait_until(is_so: Callable[[], bool], load: Load) -> None:
    """Return when something is so, and five more answers have come."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, load.answers.error
        time.sleep(0.02)
    count = len(load.answers.times)
    while len(load.answers.times) < count + 5:
        assert time.monotonic() < deadline_s, load.answers.error
        time.sleep(0.02)


def used(session: Session) -> set[str]:
    """The devices of the running plan."""
    return {part.device for part in session.program.devices}
