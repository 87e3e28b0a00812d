"""Sessions that recover, over workers in memory, and requests that are checked one by one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tests.memory_lab import MemoryLab, memory_lab
from tests.planners.fakes import make_chain

from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.execution.adapt import LOSSES_ONLY
from partita.graph import Graph
from partita.leader import DeployOptions, Session, deploy
from partita.planners import find_plan

DEVICES = [Device(name, kind="raspberry-pi-4") for name in ("d0", "d1", "d2")]
#: Plans are believed as they are predicted: here all workers share one process.
BELIEVE = replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"), pause_s=0.0)
#: No test takes longer, on whatever machine.
PATIENCE_S = 30.0


@dataclass
class Run:
    """A session over workers in memory, and requests that are checked one by one.

    Attributes:
        searches: What was searched with, in order.
    """

    lab: MemoryLab
    session: Session
    graph: Graph
    searches: list[CostModel] = field(default_factory=list)

    def until(self, is_done: Callable[[], bool], least: int = 3) -> None:
        """Ask until something has happened; each answer is its own, in order."""
        given: list[dict[str, np.ndarray]] = []

        def feed() -> Iterator[dict[str, np.ndarray]]:
            deadline_s = time.monotonic() + PATIENCE_S
            while len(given) < least or not is_done():
                assert time.monotonic() < deadline_s, self.session.changes
                given.append(draw_inputs(self.graph.input_specs, 1, len(given))[0])
                yield given[-1]

        answers = list(self.session.iterate(feed()))
        whole = ort.InferenceSession(self.graph.to_model().SerializeToString())
        assert len(answers) == len(given)
        for one, answer in zip(given, answers, strict=True):
            (got,) = answer.values()
            np.testing.assert_allclose(got, whole.run(None, one)[0], atol=1e-5)

    @property
    def used(self) -> set[str]:
        """The devices of the running plan."""
        return {part.device for part in self.session.program.devices}

    def outcomes(self) -> list[str]:
        """What came of each change so far."""
        return [change.outcome for change in self.session.changes]


@contextlib.contextmanager
def open_run(
    cluster: Cluster, store: Path, *, graph: Graph | None = None, planner: str = "equal_rows"
) -> Iterator[Run]:
    """Three devices with a third of the rows each, or what another planner makes of a network.

    Args:
        cluster: Of :data:`DEVICES`; strangers may be allowed.
        store: Where the workers keep content.
        graph: A small chain of layers by default.
    """
    graph, searches = graph or make_chain(3, height=12), list[CostModel]()
    cost = CostModel(graph, cluster)
    plan = find_plan(cost, planner=planner).plan
    find = make_finder(plan, planner, 0.5)

    def search(model: CostModel) -> object:
        searches.append(model)
        return find(model)

    replanner = Replanner(cost, plan, search)  # type: ignore[arg-type]
    with (
        memory_lab(DEVICES, store=store) as lab,
        deploy(
            compile_plan(graph, plan, cost.cluster),
            lab.endpoint,
            DeployOptions(wait_s=0.5),
            replan=replanner.recover,
            adapting=(replanner, BELIEVE),
        ) as session,
    ):
        session.begin_traces()
        yield Run(lab, session, graph, searches)
