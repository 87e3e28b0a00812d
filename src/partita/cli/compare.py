"""``partita compare``: every method on the same profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    BudgetOpt,
    ClusterOpt,
    DebugOpt,
    EstimatorOpt,
    InFlightOpt,
    JsonOpt,
    ModelArg,
    ObjectiveOpt,
    ProfileOpt,
    SeedOpt,
    SetOpt,
    ShapeOpt,
    from_to,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("compare")
    def compare(
        model: ModelArg,
        cluster: ClusterOpt,
        planners: Annotated[
            str, typer.Option("--planners", help="Names with commas between, or all.")
        ] = "all",
        objective: ObjectiveOpt = "latency",
        budget: BudgetOpt = 60.0,
        seed: SeedOpt = 0,
        in_flight: InFlightOpt = None,
        settings: SetOpt = None,
        profile: ProfileOpt = None,
        estimator: EstimatorOpt = "table",
        shape: ShapeOpt = None,
        measure: Annotated[
            bool, typer.Option("--run", help="Also run each plan on the emulated cluster.")
        ] = False,
        requests: Annotated[
            int,
            typer.Option("--requests", callback=from_to(1, MOST_REQUESTS), help="Inputs per run."),
        ] = 5,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="Chart to write (PNG).")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Run every planner on the same profiles; one table, one chart."""
        from partita.cli.output import check_output, print_reply
        from partita.cli.plan import make_options
        from partita.cli.sources import profile_files, read_cost, read_graph
        from partita.cluster import load_cluster

        check_output(output, model, cluster, *profile_files(profile))
        graph = read_graph(model, shape)
        options = make_options(objective, budget, seed, in_flight=in_flight, settings=settings)
        cost = read_cost(graph, load_cluster(cluster), profile, estimator)
        runs = requests if measure else 0
        reply, contenders = compare_planners(cost, planners, options, runs)
        if output is not None:
            from partita.report import write_chart

            write_chart(output, contenders)
            reply.shown.append(f"Chart written to {output}")
        return print_reply(reply, as_json=json)


def choose_planners(names: str) -> list[str]:
    """Return planner names from a flag.

    ``all`` leaves out those that only serve small inputs, and those that train for minutes.

    Raises:
        InputError: There is no name.
        PlanError: A name is unknown.
    """
    from partita.errors import InputError
    from partita.planners import get_planner, planner_names

    if names == "all":
        left_out = ("exponential", "training")
        return [name for name in planner_names() if get_planner(name).cost not in left_out]
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InputError(f"--planners '{names}' names none; allowed: all, or names with commas.")
    for name in chosen:
        get_planner(name)
    return chosen


def compare_planners(cost: Any, names: str, options: Any, runs: int) -> tuple[Any, list[Any]]:
    """Return the reply, and the contenders for the chart; with ``runs`` each plan is also run."""
    from contextlib import ExitStack

    from partita.cli.output import Reply, progress_bar, say
    from partita.lab import start_lab
    from partita.planners import find_plan
    from partita.report import compare_table

    chosen = choose_planners(names)
    entries: list[dict[str, Any]] = []
    with ExitStack() as stack:
        endpoint = None
        if runs:
            from partita.leader import refine_cost

            say("starting one worker per device on this machine")
            endpoint = stack.enter_context(start_lab(cost.cluster)).endpoint
            say("measuring what messages cost")
            program = cost.layout(find_plan(cost, planner="single").plan).program
            cost = refine_cost(endpoint, cost, program)
        advance = stack.enter_context(progress_bar("comparing"))
        for done, name in enumerate(chosen):
            advance(done, len(chosen), name)
            if runs:
                say(f"planning with '{name}'")
            entries.append(_try_planner(cost, name, options))
        if endpoint is not None:
            _measure(endpoint, cost, [one for one in entries if "plan" in one], (runs, advance))
    contenders = [_contender(one) for one in entries]
    shown = [{key: v for key, v in one.items() if key != "plan"} for one in entries]
    return Reply({"planners": shown}, [compare_table(contenders)]), contenders


def _try_planner(cost: Any, name: str, options: Any) -> dict[str, Any]:
    from partita.cli.plan import plan_model
    from partita.errors import PlanError

    try:
        reply, plan = plan_model(cost, name, options)
    except PlanError as error:
        return {"planner": name, "status": f"no plan: {error}"}
    payload: dict[str, Any] = reply.payload | {"planner": name, "plan": plan}
    return payload


def _measure(
    endpoint: Any, cost: Any, entries: Sequence[dict[str, Any]], how: tuple[int, Any]
) -> None:
    """Run each plan on the emulated cluster and add ``measured`` to its entry."""
    from partita.cli.inputs import draw_inputs
    from partita.cli.output import say
    from partita.cli.replies import describe_report
    from partita.compile import compile_plan
    from partita.leader import DeployOptions, deploy

    runs, advance = how
    inputs = draw_inputs(cost.graph.input_specs, runs + 1, 0)
    for done, entry in enumerate(entries):
        advance(done, len(entries), f"running {entry['planner']}")
        say(f"running '{entry['planner']}'")
        compiled = compile_plan(cost.graph, entry["plan"], cost.cluster)
        options = DeployOptions(reference_s=cost.reference_s)
        with deploy(compiled, endpoint, options) as session:
            session.run(inputs[:1], in_flight=1)
            session.begin_traces()
            session.run(inputs[1:])
            entry["measured"] = describe_report(session.report())


def _contender(entry: dict[str, Any]) -> Any:
    from partita.report import Contender

    if "plan" not in entry:
        return Contender(entry["planner"], status=entry["status"])
    measured = entry.get("measured")
    return Contender(
        entry["planner"],
        predicted_s=entry["latency_s"]["p50"],
        measured_s=measured["latency_s"]["p50"] if measured else None,
        images_per_second=entry["images_per_second"],
        moved_bytes=entry["moved_bytes"],
        search_s=entry["search_s"],
        status=entry["status"],
    )
