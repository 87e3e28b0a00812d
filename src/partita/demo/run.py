"""The demo from end to end: draw, profile, plan, predict, run, check, read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from partita.compile import build_layout, compile_plan
from partita.cost import CostModel
from partita.demo.cluster import load_demo_cluster
from partita.demo.detector import IMAGE_INPUT, detector_model, image_to_input
from partita.demo.photo import draw_photo
from partita.demo.reader import read_plates
from partita.demo.result import DemoOptions, DemoResult, Trial
from partita.demo.whole import Array, compare_outputs, run_whole
from partita.exactness.compare import Difference
from partita.fabric import Endpoint
from partita.graph import load_graph
from partita.lab import start_lab
from partita.leader import DeployOptions, deploy, refine_cost
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.profile import MeasureOptions, measure_profile
from partita.simulation import predict

Say = Callable[[str], None]
Answer = dict[str, Array]

#: A few seconds for the detector on one core; more would be steadier. Not tuned.
QUICKLY = MeasureOptions(repeats=8, rounds=2, budget_s=0.2)
#: The first runs of a deployed plan touch memory and connections for the first time. Not tuned.
WARM_RUNS = 2


def run_demo(options: DemoOptions | None = None, *, say: Say = lambda _: None) -> DemoResult:
    """What the divided plate detector found on a drawn photo, and how long it took.

    Draws the photo, measures this machine, plans for the demo's four emulated devices, runs the
    plan and the best single device's plan on them, and checks every answer with the whole model.

    Args:
        say: Told in a few words what happens now.

    Raises:
        ModelError: The package with the trained networks is missing.
        RunError: A worker failed.
    """
    began_s = time.monotonic()
    options = options or DemoOptions()
    pixels, drawn = draw_photo(options.seed, plates=options.plates)
    model, cluster = detector_model(), load_demo_cluster()
    inputs: Answer = {IMAGE_INPUT: image_to_input(pixels)}
    whole = run_whole(model, inputs)
    graph = load_graph(model)
    say("measuring this machine")
    cost = CostModel(graph, cluster, profiles=measure_profile(graph, QUICKLY))
    search = PlanOptions(most_s=options.budget_s)
    alone = find_plan(cost, planner="single", options=search)
    with start_lab(cluster) as lab:
        say("measuring what messages cost")
        program = build_layout(graph, alone.plan, cluster).program
        cost = refine_cost(lab.endpoint, cost, program)
        say(f"planning with '{options.planner}'")
        result = find_plan(cost, planner=options.planner, options=search)
        alone = find_plan(cost, planner="single", options=search)
        say("running on the best single device")
        single, _ = try_plan(lab.endpoint, cost, alone.plan, [inputs] * options.runs)
        say("running divided")
        divided, answers = try_plan(lab.endpoint, cost, result.plan, [inputs] * options.runs)
    return DemoResult(
        pixels=pixels,
        drawn=tuple(drawn),
        read=read_plates(pixels, answers[-1]),
        divided=divided,
        single=single,
        differences=_worst([compare_outputs(whole, answer) for answer in answers]),
        status=result.status,
        lower_bound_s=result.lower_bound_s,
        wall_s=time.monotonic() - began_s,
    )


def try_plan(
    endpoint: Endpoint, cost: CostModel, plan: Plan, requests: Sequence[Answer]
) -> tuple[Trial, list[Answer]]:
    """A plan's predicted and measured run, one request after the other, and its answers."""
    predicted = predict(cost, plan, requests=len(requests), in_flight=1)
    options = DeployOptions(reference_s=cost.reference_s)
    with deploy(compile_plan(cost.graph, plan, cost.cluster), endpoint, options) as session:
        session.run([requests[0]] * WARM_RUNS, in_flight=1)
        answers = session.run(requests, in_flight=1)
        measured = session.report()
    return Trial(plan, predicted, measured), answers


def _worst(runs: Sequence[Sequence[Difference]]) -> tuple[Difference, ...]:
    """Return, per output, the largest difference of any run."""
    return tuple(
        max(same, key=lambda difference: difference.max_difference)
        for same in zip(*runs, strict=True)
    )
