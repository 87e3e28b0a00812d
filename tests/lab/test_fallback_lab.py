"""The cloud is killed on a lab of real processes: the camera goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import inf
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.planners.edgecloud.cases import quantised_chain

import partita as pt
from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cli.actions.answered import add_fallback, check_answers, list_fallback, measure_snr
from partita.cli.inputs import draw_inputs
from partita.cli.output import Reply
from partita.cli.sources import Loaded
from partita.cluster import Cluster, Device
from partita.compile import compile_plan, planned_graph
from partita.execution import AdaptOptions
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.plan import hash_plan
from partita.profile import MeasureOptions

pytestmark = pytest.mark.slow

STRUCK = 20


def test_the_camera_answers_what_the_killed_cloud_owes(tmp_path: Path) -> None:
    """Each input has one answer, right by the plan that gave it; the fallback's are marked."""
    graph, data = quantised_chain(8, 8, 16, 8, 4)
    cluster = Cluster.of([Device("camera"), Device("cloud")])
    profile = pt.measure_profile(graph, MeasureOptions(repeats=3, budget_s=0.05))
    cost = pt.CostModel(graph, cluster, profiles=profile)
    plan = pt.find_plan(cost, planner="cloud_only", options=pt.PlanOptions(in_flight=2)).plan
    options = pt.PlanOptions(quantisation=data, in_flight=2, method={"edge_only.bits": "8"})
    fallback = replace(
        pt.find_plan(cost, planner="edge_only", options=options).plan, accuracy=0.6, options=None
    )
    plan = replace(plan, fallback=fallback)
    spare = compile_plan(graph, fallback, cluster)
    feeds = draw_inputs(graph.input_specs, 3 * STRUCK, 0)
    answers = []
    with (
        start_lab(cluster, LabOptions(store=tmp_path)) as lab,
        deploy(
            compile_plan(graph, plan, cluster),
            lab.endpoint,
            replan=lambda lost: spare,
            standby=spare,
        ) as session,
    ):
        for answer in session.iterate(feeds):
            answers.append(answer)
            if len(answers) == STRUCK:
                lab.kill("cloud")
        hashes = session.plans()
        (change,) = session.changes
    known = {hash_plan(each): each for each in (plan, fallback)}
    answered_by = [known[each] for each in hashes]
    own = list_fallback(fallback, answered_by)
    assert own == list(range(own[0], len(feeds)))
    assert STRUCK <= own[0] <= STRUCK + 3
    assert change.outcome == "recovered"
    loaded = Loaded(plan, planned_graph(graph, plan), cluster, (tmp_path, tmp_path, tmp_path))
    checked = check_answers(loaded, feeds, answers, answered_by)
    assert checked.passed
    reply = Reply({}, [])
    snr_db = measure_snr(loaded, feeds, answered_by)
    add_fallback(reply, fallback, answered_by, snr_db)
    assert reply.payload["fallback"]["answers"] == own
    assert f"{len(own)} of {len(feeds)} answers, from number {own[0]} on" in str(reply.shown)
    assert snr_db is not None
    assert snr_db > 20
    assert "accuracy 0.6 when it was planned" in str(reply.shown)


def test_a_gateway_takes_the_killed_clouds_place(tmp_path: Path) -> None:
    """The camera answers at once by itself; the gateway, much faster, as soon as it is ready."""
    graph, _ = quantised_chain(8, 32, 32, 4, size=48)
    devices = [Device("camera", slow_down=100.0), Device("gateway"), Device("cloud")]
    cluster = Cluster.of(devices)
    profile = pt.measure_profile(graph, MeasureOptions(repeats=3, budget_s=0.05))
    cost = pt.CostModel(graph, cluster, profiles=profile)
    options = pt.PlanOptions(fallback=True, method={"cloud_only.cloud": "cloud"})
    plan = pt.find_plan(cost, planner="cloud_only", options=options).plan
    assert plan.fallback is not None
    replanner = Replanner(cost, plan, make_finder(plan, "best", most_s=0.5))
    draw = iter(draw_inputs(graph.input_specs, 1, seed)[0] for seed in count())
    asked: list[dict[str, np.ndarray]] = []
    with (
        start_lab(cluster, LabOptions(store=tmp_path)) as lab,
        deploy(
            compile_plan(graph, plan, cluster),
            lab.endpoint,
            replan=replanner.recover,
            standby=compile_plan(graph, plan.fallback, cluster),
            adapting=(replanner, AdaptOptions(threshold=inf, probe_s=inf)),
        ) as session,
    ):
        session.begin_traces()

        def feed() -> Iterator[dict[str, np.ndarray]]:
            while len(asked) < 500 and "switched" not in {one.outcome for one in session.changes}:
                asked.append(next(draw))
                yield asked[-1]
                if len(asked) == 3:
                    lab.kill("cloud")

        answers = list(session.iterate(feed()))
        recovered, sought = session.changes[:2]
        used = {part.device for part in session.program.devices}
        known = [replanner.plan_of(each) for each in session.plans()]
    assert (recovered.outcome, sought.outcome) == ("recovered", "switched"), sought.detail
    assert "gateway" in used
    assert plan.fallback in known
    loaded = Loaded(plan, graph, cluster, (tmp_path, tmp_path, tmp_path))
    assert check_answers(loaded, asked, answers, known).passed
