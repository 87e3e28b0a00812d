"""``partita run``: run a plan on real or emulated workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.adapting import (
    AdaptOpt,
    BudgetOpt,
    HoldOpt,
    PlannerOpt,
    ThresholdOpt,
    TimeScaleOpt,
)
from partita.cli.credentials import read_access
from partita.cli.flags import (
    MOST_REQUESTS,
    AuthorityOpt,
    CertificateOpt,
    DebugOpt,
    EstimatorOpt,
    InFlightOpt,
    InsecureOpt,
    JsonOpt,
    KeyOpt,
    PlanArg,
    PlanClusterOpt,
    PlanModelOpt,
    ProfileOpt,
    SeedOpt,
    ShapeOpt,
    from_to,
    refuse_given,
)

#: Seconds of a search when a device was lost and requests wait.
_LOSS_BUDGET_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("run")
    def run(
        context: typer.Context,
        plan: PlanArg,
        inputs: Annotated[
            list[str] | None, typer.Option("--input", help="File, NAME=FILE, or directory.")
        ] = None,
        requests: Annotated[
            int,
            typer.Option(
                "--requests",
                callback=from_to(1, MOST_REQUESTS),
                help="Inputs to draw when none is given.",
            ),
        ] = 10,
        in_flight: InFlightOpt = None,
        model: PlanModelOpt = None,
        cluster: PlanClusterOpt = None,
        profile: ProfileOpt = None,
        estimator: EstimatorOpt = "table",
        shape: ShapeOpt = None,
        workers: Annotated[
            bool | None,
            typer.Option(
                "--workers/--lab",
                help="Use running workers, or emulate the cluster here. By default workers where"
                " the cluster file gives addresses.",
            ),
        ] = None,
        insecure: InsecureOpt = False,
        authority: AuthorityOpt = None,
        certificate: CertificateOpt = None,
        key: KeyOpt = None,
        warm_up: Annotated[
            int,
            typer.Option(
                "--warm-up",
                callback=from_to(0, MOST_REQUESTS),
                help="Runs before those that count.",
            ),
        ] = 1,
        recover: Annotated[
            bool, typer.Option("--recover", help="Plan again on the rest when a device is lost.")
        ] = False,
        adapt: AdaptOpt = False,
        threshold: ThresholdOpt = 0.25,
        hold: HoldOpt = 3.0,
        planner: PlannerOpt = "best",
        budget: BudgetOpt = 60.0,
        time_scale: TimeScaleOpt = 1.0,
        check: Annotated[
            bool, typer.Option("--check", help="Compare every answer with the whole model's.")
        ] = False,
        seed: SeedOpt = 0,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="Folder for outputs (.npz per input).")
        ] = None,
        report: Annotated[
            Path | None, typer.Option("--report", help="Folder for the HTML report and the trace.")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Run on real or emulated workers; outputs, and measured beside predicted."""
        from partita.cli.adapting import make_options, scale_traces
        from partita.cli.inputs import get_requests
        from partita.cli.output import check_folder, print_reply
        from partita.cli.simulate import check_in_flight, predict
        from partita.cli.sources import read_cost, read_plan

        if not adapt:
            refuse_given(context, ("threshold", "hold"), "needs --adapt")
        if not (adapt or recover):
            refuse_given(context, ("planner", "budget"), "needs --adapt or --recover")
        options = make_options(threshold, hold, planner)
        check_folder(output)
        check_folder(report)
        loaded = read_plan(plan, model, cluster, shape)
        loaded = replace(loaded, cluster=scale_traces(loaded.cluster, time_scale))
        graph = loaded.graph
        specs = graph.input_specs
        feeds = get_requests(context, specs, inputs, requests, seed)
        cost = read_cost(graph, loaded.cluster, profile, estimator)
        check_in_flight(loaded.plan, in_flight)
        access = read_access(
            workers, insecure, authority=authority, certificate=certificate, key=key
        )
        change = Changing(recover, options if adapt else None, planner, budget)
        with open_session(loaded, access, cost, change) as (session, cost):
            session.run(feeds[:1] * warm_up, in_flight=1) if warm_up else None
            session.begin_traces()
            answers = session.run(feeds, in_flight=in_flight)
            measured = session.report()
            changes = tuple(session.changes) if adapt else None
        predicted = predict(cost, loaded.plan, len(feeds), in_flight)
        shown = RunShown(loaded, predicted, measured, check, output, report)
        shown.changes = changes
        return print_reply(shown.finish(feeds, answers), as_json=json)


@dataclass(frozen=True)
class Changing:
    """What may change the plan while it runs.

    Attributes:
        recover: Whether the rest takes over when a device is lost.
        options: When a drift changes the plan; None never.
        planner: Who plans anew.
        budget_s: Most seconds of a search for a drift.
    """

    recover: bool
    options: Any
    planner: str
    budget_s: float


@contextlib.contextmanager
def open_session(
    loaded: Any, access: Any, cost: Any, change: Changing
) -> Iterator[tuple[Any, Any]]:
    """Deploy a plan; yield the session, and the cost model with the workers' fixed costs."""
    from partita.adapting.replanner import Replanner
    from partita.api import open_endpoint
    from partita.cli.output import say
    from partita.compile import compile_plan
    from partita.leader import DeployOptions, deploy, refine_cost

    compiled = compile_plan(loaded.graph, loaded.plan, loaded.cluster)
    plan = loaded.plan
    options = DeployOptions(planner=plan.planner, seed=plan.seed, reference_s=cost.reference_s)
    say("connecting to the workers")
    with open_endpoint(loaded.cluster, access) as endpoint:
        say("measuring what messages cost")
        cost = refine_cost(endpoint, cost, compiled.program)
        replanner = Replanner(cost, loaded.plan, _finder(loaded.plan, change))
        adapting = None if change.options is None else (replanner, change.options)
        replan = _telling(replanner) if change.recover else None
        say("deploying")
        with deploy(compiled, endpoint, options, replan=replan, adapting=adapting) as session:
            say("running")
            yield session, cost


def _finder(plan: Any, change: Changing) -> Any:
    """Return who plans anew; on a loss alone there is no time for a long search."""
    from partita.adapting.replanner import make_finder

    if change.options is None:
        return make_finder(plan, budget_s=_LOSS_BUDGET_S)
    return make_finder(plan, change.planner, change.budget_s)


def _telling(replanner: Any) -> Any:
    """Return what plans anew on the devices that are left, when one is lost."""
    from partita.cli.output import say

    def replan(device: str) -> Any:
        say(f"device '{device}' is lost, planning on the rest")
        return replanner.recover(device)

    return replan


class RunShown:
    """What a run leaves behind: the reply, outputs, and the report's files."""

    def __init__(
        self, loaded: Any, predicted: Any, measured: Any, check: bool, *folders: Path | None
    ) -> None:
        self.loaded = loaded
        self.predicted = predicted
        self.measured = measured
        self.check = check
        self.output, self.report = folders
        self.changes: tuple[Any, ...] | None = None

    def finish(self, feeds: Sequence[Any], answers: Sequence[Any]) -> Any:
        """Write what was asked for and return the reply."""
        from partita.cli.adapting import describe_changes, list_notes, show_changes
        from partita.cli.output import Reply
        from partita.cli.replies import describe_report
        from partita.report import plan_table, report_tables

        payload = describe_report(self.measured)
        payload["predicted"] = describe_report(self.predicted)
        lines: list[str] = []
        code = 0
        checked = self._compare(feeds, answers) if self.check else None
        if checked is not None:
            payload["max_difference"] = checked.max_difference
            payload["max_magnitude"] = checked.max_magnitude
            payload["passed"] = checked.passed
            payload["lossy_transfers"] = checked.lossy
            code = 0 if checked.passed or checked.lossy else 4
            lines.append(
                f"Check:       {checked.max_difference:.2e} from the whole model at most,"
                f" largest value {checked.max_magnitude:.3g}:"
                f" {checked.verdict}"
            )
        notes = list_notes(self.loaded.cluster, self.measured.makespan_s)
        lines += [*notes, *self._write(answers, checked, payload)]
        if notes:
            payload["notes"] = [" ".join(note.split()) for note in notes]
        tables: list[Any] = list(report_tables(self.predicted, self.measured))
        if self.changes is not None:
            payload["changes"] = describe_changes(self.changes)
            tables += show_changes(self.changes)
        return Reply(
            payload,
            [plan_table(self.loaded.plan, self.loaded.cluster.names), *tables, *lines],
            exit_code=code,
        )

    def _compare(self, feeds: Sequence[Any], answers: Sequence[Any]) -> Any:
        from partita.exactness.compare import compare_answers, is_lossy_plan, tolerance_of
        from partita.report import Checked

        worst = compare_answers(self.loaded.graph, feeds, answers)
        allowed = tolerance_of(self.loaded.graph)
        passed, lossy = worst.relative <= allowed, is_lossy_plan(self.loaded.plan)
        return Checked(worst.max_difference, worst.max_magnitude, len(feeds), passed, lossy)

    def _write(self, answers: Sequence[Any], checked: Any, payload: dict[str, Any]) -> list[str]:
        from partita.cli.simulate import graph_title
        from partita.report import ReportBundle, write_report

        lines = []
        if self.output is not None:
            write_answers(self.output, answers)
            payload["outputs"] = str(self.output)
            lines.append(f"Outputs written to {self.output}")
        if self.report is not None:
            bundle = ReportBundle(
                graph_title(self.loaded),
                self.loaded.plan,
                predicted=self.predicted,
                measured=self.measured,
                checked=checked,
                changes=self.changes or (),
            )
            payload["report"] = str(write_report(self.report, bundle).page)
            lines.append(f"Report written to {payload['report']}")
        return lines


def write_answers(folder: Path, answers: Sequence[Any]) -> None:
    """Write one ``.npz`` per answer, all or none.

    Raises:
        InputError: They cannot be written.
    """
    import io

    import numpy as np

    from partita.errors import InputError
    from partita.files import write_folder

    contents: dict[str, bytes] = {}
    for number, answer in enumerate(answers):
        buffer = io.BytesIO()
        np.savez(buffer, **answer)
        contents[f"output-{number:05d}.npz"] = buffer.getvalue()
    try:
        write_folder(folder, contents)
    except OSError as error:
        raise InputError(
            f"Outputs cannot be written to '{folder}': {error.strerror}.", subject=str(folder)
        ) from error
