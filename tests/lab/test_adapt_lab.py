"""A plan that changes on real worker processes whose links follow a trace."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.planners.fakes import make_chain

import partita as pt
from partita.api import Access
from partita.cluster import Cluster, Device, Link
from partita.exactness.compare import compare_answers, tolerance_of
from partita.profile import MeasureOptions

pytestmark = pytest.mark.slow


def list_judged(session: pt.Session) -> list[Any]:
    """Return the changes for a link's sake that were kept after their trial.

    A profile measured while the machine was busy makes a device drift, too, before or after.
    """
    return [
        change
        for change in session.changes
        if change.outcome == "switched" and change.measured_new_s and "link" in change.why
    ]


def test_processes_change_their_plan_when_a_link_collapses() -> None:
    """Requests stream over a link that becomes a hundredth; every answer is right and in order."""
    graph = pt.load_graph(make_chain(6, height=8, channels=4, seed=1).to_model())
    fast, slow = 50e6 / 8, 0.05e6 / 8
    trace = ((2.0, slow),)
    links = [Link("cam", "box", fast, trace=trace), Link("box", "cam", fast, trace=trace)]
    devices = [Device("cam", slow_down=400.0), Device("box", slow_down=40.0)]
    cluster = Cluster.of(devices, links=links)
    profile = pt.measure_profile(graph, MeasureOptions(repeats=3, budget_s=0.05))
    cost = pt.CostModel(graph, cluster, profiles=profile)
    plan = pt.find_plan(cost, options=pt.PlanOptions(most_s=0.5)).plan
    assert any(shard.device == "box" for stage in plan.stages for shard in stage.shards)
    options = pt.AdaptOptions(threshold=1.0, hold_s=1.0, window_s=0.5, pause_s=0.5, trial=3)
    adapt = pt.Adapt(cost, budget_s=0.5, options=options)
    rng = np.random.default_rng(0)
    given: list[dict[str, Any]] = []
    with pt.deploy(plan, graph, cluster, Access(workers=False), adapt=adapt) as session:
        deadline_s = time.monotonic() + 60

        def feed() -> Iterator[dict[str, Any]]:
            for number in itertools.count():
                if (list_judged(session) and number > 20) or time.monotonic() > deadline_s:
                    return
                shape = graph.tensors["x"].shape
                given.append({"x": rng.standard_normal(shape).astype(np.float32)})
                yield given[-1]

        answers = list(session.iterate(feed()))
        changes, judged = session.changes, list_judged(session)
    assert len(answers) == len(given)
    assert compare_answers(graph, given, answers).relative <= tolerance_of(graph)
    assert judged, changes
    assert judged[-1].measured_new_s < judged[-1].measured_old_s
