"""``partita simulate``: predict a plan's run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import (
    DebugOpt,
    EstimatorOpt,
    InFlightOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanModelOpt,
    ProfileOpt,
    ShapeOpt,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("simulate")
    def simulate(
        plan: PlanArg,
        requests: Annotated[int, typer.Option("--requests", help="Inputs to feed.")] = 1,
        in_flight: InFlightOpt = None,
        model: PlanModelOpt = None,
        cluster: PlanClusterOpt = None,
        profile: ProfileOpt = None,
        estimator: EstimatorOpt = "table",
        shape: ShapeOpt = None,
        trace: Annotated[
            Path | None, typer.Option("--trace", help="Timeline to write, for Perfetto.")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Predict latency, throughput, busy times and memory on a virtual clock."""
        from partita.cli.output import Reply, print_reply
        from partita.cli.replies import describe_report
        from partita.cli.sources import read_cost, read_plan
        from partita.errors import InputError
        from partita.report import ReportBundle, plan_table, report_tables, write_trace

        if requests < 1:
            raise InputError("--requests must be at least 1.", subject="--requests")
        loaded = read_plan(plan, model, cluster, shape)
        cost = read_cost(loaded.graph, loaded.cluster, profile, estimator)
        report = predict(cost, loaded.plan, requests, in_flight)
        shown: list[Any] = [plan_table(loaded.plan), *report_tables(report)]
        if trace is not None:
            write_trace(trace, ReportBundle(graph_title(loaded), loaded.plan, predicted=report))
            shown.append(f"Timeline written to {trace}")
        return print_reply(Reply(describe_report(report), shown), as_json=json)


def graph_title(loaded: Any) -> str:
    """Return a heading: which model on which cluster."""
    return f"{loaded.graph.name} on {loaded.cluster.name}"


def predict(cost: Any, plan: Any, requests: int, in_flight: int | None) -> Any:
    """Return the predicted run of a plan.

    Raises:
        InputError: More requests at a time are asked for than the plan allows.
    """
    from partita.simulation import simulate as run

    check_in_flight(plan, in_flight)
    layout = cost.layout(plan)
    return run(
        layout.program,
        cost.price(layout),
        requests=requests,
        in_flight=in_flight,
        planner=plan.planner,
        seed=plan.seed,
    )


def check_in_flight(plan: Any, in_flight: int | None) -> None:
    """Return when the plan allows so many requests at a time.

    Raises:
        InputError: It does not.
    """
    from partita.errors import InputError

    if in_flight is not None and not 1 <= in_flight <= plan.in_flight:
        raise InputError(
            f"--in-flight is {in_flight}, the plan allows 1 to {plan.in_flight}."
            " Plan again with a larger --in-flight.",
            subject="--in-flight",
        )
