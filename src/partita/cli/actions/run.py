"""Running a plan on workers, and what is said and kept of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from partita.api import find_outsiders, open_endpoint
from partita.cli.access import read_access, say_where
from partita.cli.actions.answered import add_fallback, check_answers, measure_snr
from partita.cli.actions.deployed import Opened, find_unlike_lab, open_session
from partita.cli.actions.simulate import read_adapt
from partita.cli.actions.watched import Scenes, check_page, watch_session
from partita.cli.answers import KeptAnswers, PackedAnswers
from partita.cli.costs import allow_in_flight, read_cost
from partita.cli.flags import AccessFlags, AdaptFlags, PlanFiles, RequestFlags, WatchFlags
from partita.cli.inputs import get_requests
from partita.cli.output import Reply, check_folder, write_outputs
from partita.cli.replies import (
    BITS_ASIDE,
    add_notes,
    add_speeds,
    describe_changes,
    describe_report,
    show_changes,
)
from partita.cli.sources import Loaded, read_plan
from partita.cost import CostOptions
from partita.execution import Change, Report
from partita.plan import Plan
from partita.quantisation.samples import Feeds
from partita.report import (
    LAST_PLAN,
    Checked,
    PlanRun,
    ReportBundle,
    draw_table,
    plan_table,
    report_tables,
)
from partita.report.changes import tabulate_plan_runs
from partita.simulation import predict
from partita.units import format_bytes, format_seconds


@dataclass(frozen=True)
class RunOptions:
    """How a plan is run, and what is kept of the run.

    Attributes:
        in_flight: Most requests at a time; None for as many as the plan is for.
        warm_up: Runs before those that count.
        check: Whether every answer is compared with the whole model's.
        output: Folder for the answers; None keeps none.
        report: Folder for the HTML report and the trace; None writes none.
        watch: Where the run is shown while it goes on.
    """

    in_flight: int | None
    warm_up: int
    check: bool
    output: Path | None
    report: Path | None
    watch: WatchFlags


@dataclass(frozen=True)
class Ran:
    """A run that is over.

    Attributes:
        predicted: The loaded plan, with the fixed costs of these workers.
        planned: Without them, as the plan was made.
        fixed: What a message, a run of a fragment and a request cost on these workers.
        checked: How far the answers are from the whole model's, where that was asked for.
        changes: Of the plan; None where it could not change with drifts and nothing was lost.
        last_plan: The plan in force at the end, where it is not the one that was loaded.
        plan_runs: That one and the loaded one, each predicted and measured; empty without it.
        answered_by: The plan that gave each answer, in order.
        fallback_snr_db: What the fallback's bits change, measured where answers are checked.
        unlike_lab: Devices that the lab ran at another speed than they are priced at.
    """

    loaded: Loaded
    predicted: Report
    planned: Report
    fixed: CostOptions
    measured: Report
    checked: Checked | None
    changes: tuple[Change, ...] | None
    last_plan: Plan | None = None
    plan_runs: tuple[PlanRun, ...] = ()
    answered_by: tuple[Plan, ...] = ()
    fallback_snr_db: float | None = None
    unlike_lab: tuple[str, ...] = ()

    @property
    def prediction(self) -> Report | None:
        """What the whole run may be compared with: nothing where the plan changed under way."""
        return self.predicted if self.last_plan is None else None


@dataclass(frozen=True)
class Began:
    """What was in force when a run began: the epoch, and its plan."""

    epoch: int
    plan: Plan


def run_plan(
    files: PlanFiles,
    requests: RequestFlags,
    access: AccessFlags,
    adapting: AdaptFlags,
    options: RunOptions,
) -> Reply:
    """Run a plan; the reply has measured beside predicted, exit code 4 where answers differ.

    Raises:
        InputError: A file or a flag cannot be used.
        PlanError: The plan is not for this model and cluster.
        RunError: A worker is missing, refuses or fails.
    """
    read_adapt(adapting)
    check_folder(options.output)
    check_folder(options.report)
    if options.watch.page is not None:
        check_page(options.watch.page)
    loaded = read_plan(files)
    feeds = get_requests(loaded.graph.input_specs, requests)
    cost = read_cost(loaded.graph, loaded.cluster, files)
    loaded = replace(loaded, plan=allow_in_flight(loaded.plan, cost, options.in_flight))
    with KeptAnswers() as answers:
        reach = read_access(access, leads=True)
        say_where(loaded.cluster, reach)
        leader = open_endpoint(loaded.cluster, reach, ())
        outsiders = find_outsiders(loaded.cluster, reach)
        with open_session(loaded, leader, cost, adapting, outsiders=outsiders) as opened:
            scenes = Scenes(loaded, opened.cost, opened.replanner)
            with watch_session(opened.session, scenes, options.watch):
                ran = run_requests(loaded, opened, feeds, answers, options)
        if options.check:
            known = replace(loaded, cluster=opened.replanner.cluster)
            checked = check_answers(known, feeds, answers, ran.answered_by)
            snr_db = measure_snr(loaded, feeds, ran.answered_by)
            ran = replace(ran, checked=checked, fallback_snr_db=snr_db)
        if not adapting.adapt and not ran.changes:
            ran = replace(ran, changes=None)
        ran = replace(ran, unlike_lab=find_unlike_lab(cost, loaded.plan, reach))
        reply = describe_run(ran)
        if options.output is not None:
            write_outputs(options.output, PackedAnswers(answers))
            reply.payload["outputs"] = str(options.output)
            reply.shown.append(f"Outputs written to {options.output}")
    if options.report is not None:
        page = write_run(options.report, ran)
        reply.payload["report"] = str(page)
        reply.shown.append(f"Report written to {page}")
    return reply


def run_requests(
    loaded: Loaded,
    opened: Opened,
    feeds: Sequence[Feeds],
    answers: KeptAnswers,
    options: RunOptions,
) -> Ran:
    """Run the requests in a session; ``answers`` gets those that are looked at afterwards."""
    session, in_flight = opened.session, options.in_flight
    began = begin_run(opened, feeds[0], options)
    for answer in session.iterate(feeds, in_flight=in_flight):
        if options.check or options.output is not None:
            answers.append(answer)
    return conclude_run(loaded, opened, began, len(feeds), in_flight)


def begin_run(opened: Opened, feeds: Feeds, options: RunOptions) -> Began:
    """Run what does not count; what is in force now.

    Args:
        feeds: Of the request that is repeated for that.
    """
    if options.warm_up:
        opened.session.run([feeds] * options.warm_up, in_flight=1)
    opened.session.begin_traces()
    # Another plan than the loaded one where devices were lost before it ran.
    return Began(opened.session.deployment.epoch, opened.replanner.plan)


def conclude_run(
    loaded: Loaded, opened: Opened, began: Began, requests: int, in_flight: int | None
) -> Ran:
    """A run that is over, beside the prediction of one of so many requests."""
    session = opened.session
    planned, predicted = (
        predict(cost, loaded.plan, requests=requests, in_flight=in_flight)
        for cost in (opened.planned, opened.cost)
    )
    last = opened.replanner.plan
    is_changed = last != loaded.plan
    first = began.epoch if began.plan == loaded.plan else None
    return Ran(
        loaded,
        predicted,
        planned,
        opened.cost.options,
        session.report(),
        None,
        tuple(session.changes),
        last if is_changed else None,
        measure_plans(opened, predicted, first, in_flight) if is_changed else (),
        _fill(began.plan, opened.replanner.plans_of(session.plans()), requests),
    )


def _fill(first: Plan, known: Sequence[Plan], requests: int) -> tuple[Plan, ...]:
    """The plan of each answer; of very long runs only the last ones are known."""
    return (*[first] * (requests - len(known)), *known)


def measure_plans(
    opened: Opened, predicted: Report, first: int | None, in_flight: int | None
) -> tuple[PlanRun, ...]:
    """The loaded plan and the one in force at the end, each beside its own prediction.

    Args:
        predicted: The loaded plan.
        first: The epoch of the loaded plan; None where it never ran.
    """
    last = opened.session.latencies_s(opened.session.deployment.epoch)
    again = opened.replanner.predict(max(1, len(last)), in_flight)
    at_first = () if first is None else opened.session.latencies_s(first)
    both = (("at first", predicted, at_first), ("at the end", again, last))
    return tuple(
        PlanRun(name, plan.quantile_s(0.5), median(took) if took else None, len(took))
        for name, plan, took in both
    )


def describe_run(ran: Ran) -> Reply:
    """The reply: measured beside predicted, the check, and changes of plan."""
    plan, cluster, checked = ran.loaded.plan, ran.loaded.cluster, ran.checked
    payload = describe_report(ran.measured) | {"predicted": describe_report(ran.predicted)}
    reply = Reply(payload, [plan_table(plan, cluster.names)])
    reply.shown += report_tables(ran.prediction, ran.measured)
    payload |= describe_fixed(ran)
    reply.shown += show_fixed(ran)
    if ran.changes is not None:
        payload["changes"] = describe_changes(ran.changes)
        reply.shown += show_changes(ran.changes)
    if ran.last_plan is not None:
        payload["last_plan"] = msgspec.to_builtins(ran.last_plan)
        payload["plan_runs"] = [asdict(run) for run in ran.plan_runs]
        reply.shown.append(plan_table(ran.last_plan, cluster.names, title=LAST_PLAN))
        reply.shown.append(draw_table(tabulate_plan_runs(ran.plan_runs)))
    if plan.fallback is not None:
        add_fallback(reply, plan.fallback, ran.answered_by, ran.fallback_snr_db)
    if checked is not None:
        payload |= {
            "max_difference": checked.max_difference,
            "max_magnitude": checked.max_magnitude,
            "non_finite": checked.non_finite,
            "passed": checked.passed,
            "lossy_transfers": checked.lossy,
        }
        reply.exit_code = 4 if checked.is_failure else 0
        reply.shown.append(
            f"Check:       {checked.max_difference:.2e} from {checked.whole} at most,"
            f" largest value {checked.max_magnitude:.3g}: {checked.verdict}"
        )
        reply.shown += [BITS_ASIDE] if checked.in_bits else []
    add_notes(reply, cluster, ran.measured.makespan_s)
    add_speeds(reply, ran.unlike_lab)
    add_short_memory(reply, ran)
    return reply


def add_short_memory(reply: Reply, ran: Ran) -> None:
    """Say where a plan needs more memory than the cluster file gives, though workers held it.

    Where it may swap, a run cannot confirm what was predicted of that.
    """
    held = {use.name: use.peak_memory_bytes or 0 for use in ran.predicted.devices}
    over = ran.loaded.cluster.overflow_bytes(held, swap=False)
    if not over:
        return
    if ran.loaded.plan.may_swap:
        name = "Swapping"
        note = (
            f"predicted on {', '.join(over)}, where the plan needs more than the file's memory;"
            " workers held all of it, so that no swapping is in what was measured"
        )
    else:
        name = "Memory"
        parts = ", ".join(f"on {device} by {format_bytes(size)}" for device, size in over.items())
        note = f"by the cluster file short {parts}; workers held all of the plan"
    reply.payload.setdefault("notes", []).append(f"{name}: {note}")
    reply.shown.append(f"{f'{name}:':<12} {note}")


def describe_fixed(ran: Ran) -> dict[str, Any]:
    """What was planned, and the fixed costs that came on top of it, as JSON."""
    fixed = ran.fixed
    return {
        "planned_s": ran.planned.quantile_s(0.5),
        "fixed_costs": {
            "message_s": fixed.send_s + fixed.receive_s,
            "run_s": fixed.compute_s,
            "request_s": fixed.admit_s,
        },
    }


def show_fixed(ran: Ran) -> list[str]:
    """Why the prediction is another than the plan's, in a line."""
    fixed = describe_fixed(ran)["fixed_costs"]
    planned_s, predicted_s = ran.planned.quantile_s(0.5), ran.predicted.quantile_s(0.5)
    return [
        f"Planned:     {format_seconds(planned_s)}; {format_seconds(predicted_s)} predicted with"
        f" what these workers take on top: {format_seconds(fixed['message_s'])} per message,"
        f" {format_seconds(fixed['run_s'])} per run of a part,"
        f" {format_seconds(fixed['request_s'])} per request"
    ]


def write_run(folder: Path, ran: Ran, facts: tuple[tuple[str, str], ...] = ()) -> Path:
    """Write the HTML report, with further facts, and the trace into the folder; the page."""
    from partita.report import write_report  # Matplotlib takes long to load

    bundle = ReportBundle(
        ran.loaded.title,
        ran.loaded.plan,
        predicted=ran.prediction,
        measured=ran.measured,
        checked=ran.checked,
        changes=ran.changes or (),
        last_plan=ran.last_plan,
        plan_runs=ran.plan_runs,
        facts=facts,
    )
    return write_report(folder, bundle).page
