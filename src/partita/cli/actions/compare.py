"""Every method on the same profiles."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partita.cli.accuracy import AskedAccuracy, ask_accuracy, check_accuracy, judge_result
from partita.cli.actions.deployed import list_unlike_lab
from partita.cli.actions.plan import Planned, describe_planned, make_options, plan_model
from partita.cli.costs import profile_files, read_cost, say_unmeasured
from partita.cli.flags import AccuracyFlags, ModelFiles
from partita.cli.inputs import draw_inputs
from partita.cli.output import Advance, Reply, check_output, progress_bar, say
from partita.cli.payloads import add_payloads, are_compressed, chooses_bits
from partita.cli.replies import add_speeds, describe_report
from partita.cli.sources import read_model
from partita.cluster import load_cluster
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.errors import InputError, PlanError
from partita.exactness.accuracy import Accuracy
from partita.execution import Report
from partita.fabric import Endpoint
from partita.lab import start_lab
from partita.leader import DeployOptions, deploy, refine_cost
from partita.planners import PlanOptions, find_plan, get_planner, planner_names
from partita.report import Contender, compare_table
from partita.report.trade_offs import describe_accuracy, describe_inexact

__all__ = ["choose_planners", "compare_planners", "make_options"]


@dataclass
class Entry:
    """What came of one planner.

    Attributes:
        planned: Its answer; None where it has no plan.
        measured: The run on the emulated cluster, where one was asked for.
        accuracy: Of its answers, where a judge was given.
    """

    planner: str
    planned: Planned | None = None
    fault: str = ""
    measured: Report | None = None
    accuracy: Accuracy | None = None


def compare_planners(
    files: ModelFiles,
    names: str,
    options: PlanOptions,
    requests: int,
    output: Path | None,
    *,
    accuracy: AccuracyFlags,
) -> Reply:
    """Plan with each method and say how they compare.

    Args:
        names: Of planners, with commas between, or ``all``.
        requests: Inputs to run each plan with on the emulated cluster; 0 only predicts.
        output: The chart; None draws none.
        accuracy: What fewer bits may cost.

    Raises:
        InputError: A file cannot be used, or there is no name.
        PlanError: A name is unknown.
    """
    check_output(output, files.model, files.cluster, *profile_files(files.profiles))
    planners = choose_planners(names)
    check_accuracy(accuracy, planners, has_bits=False, compresses=are_compressed(options))
    chooses = bool(accuracy.samples) and any(chooses_bits(name, options) for name in planners)
    graph, cluster = read_model(files, chooses_bits=chooses), load_cluster(files.cluster)
    cost = read_cost(graph, cluster, files)
    asked = ask_accuracy(options, graph, cluster, accuracy)
    asked = replace(asked, options=add_payloads(asked.options, asked.samples))
    entries = _plan_all(cost, planners, asked, requests)
    plans = [entry.planned.result.plan for entry in entries if entry.planned is not None]
    for plan in [plan for plan in plans if plan.integer_kernels][:1]:
        say_unmeasured(cost.of_plan(plan))
    contenders = [_make_contender(entry) for entry in entries]
    reply = Reply(
        {"planners": [_describe_entry(entry) for entry in entries]}, [compare_table(contenders)]
    )
    if asked.words:
        reply.shown.append(f"Accuracy:    {asked.words}, {asked.on}")
    if requests:
        add_speeds(reply, list_unlike_lab(cost, plans))
    if output is not None:
        from partita.report import write_chart  # Matplotlib takes longer than to plan

        loaded = " under load" if options.in_flight > 1 else ""
        write_chart(output, contenders, title=f"Latency by planner{loaded}")
        reply.shown.append(f"Chart written to {output}")
    return reply


def choose_planners(names: str) -> list[str]:
    """Planner names from a flag.

    ``all`` leaves out those that only serve small inputs, and those that train for minutes.

    Raises:
        InputError: There is no name.
        PlanError: A name is unknown.
    """
    if names == "all":
        left_out = ("exponential", "training")
        return [name for name in planner_names() if get_planner(name).cost not in left_out]
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InputError(f"--planners '{names}' names none; allowed: all, or names with commas.")
    for name in chosen:
        get_planner(name)
    return chosen


def _plan_all(
    cost: CostModel, names: Sequence[str], asked: AskedAccuracy, requests: int
) -> list[Entry]:
    with ExitStack() as stack:
        endpoint = None
        if requests:
            say("starting one worker per device on this machine")
            endpoint = stack.enter_context(start_lab(cost.cluster)).endpoint
            say("measuring what messages cost")
            program = cost.layout(find_plan(cost, planner="single").plan).program
            cost = refine_cost(endpoint, cost, program)
        advance = stack.enter_context(progress_bar("comparing"))
        entries = []
        for done, name in enumerate(names):
            advance(done, len(names), name)
            if requests:
                say(f"planning with '{name}'")
            try:
                planned = plan_model(cost, name, asked.options)
                accuracy = judge_result(planned.result, asked)
                entries.append(Entry(name, planned, accuracy=accuracy))
            except PlanError as error:
                entries.append(Entry(name, fault=f"no plan: {error}"))
        if endpoint is not None:
            _run_all(endpoint, cost, entries, requests, advance)
    return entries


def _run_all(
    endpoint: Endpoint, cost: CostModel, entries: Sequence[Entry], requests: int, advance: Advance
) -> None:
    """Run each plan on the emulated cluster and add ``measured`` to its entry."""
    inputs = draw_inputs(cost.graph.input_specs, requests + 1, 0)
    for done, entry in enumerate(entries):
        if entry.planned is None:
            continue
        advance(done, len(entries), f"running {entry.planner}")
        say(f"running '{entry.planner}'")
        compiled = compile_plan(cost.graph, entry.planned.result.plan, cost.cluster)
        options = DeployOptions(reference_s=cost.reference_s)
        with deploy(compiled, endpoint, options) as session:
            session.run(inputs[:1], in_flight=1)
            session.begin_traces()
            session.run(inputs[1:])
            entry.measured = session.report()


def _describe_entry(entry: Entry) -> dict[str, Any]:
    if entry.planned is None:
        return {"planner": entry.planner, "status": entry.fault}
    payload = describe_planned(entry.planned) | {
        "planner": entry.planner,
        "inexact": describe_inexact(entry.planned.result.plan),
        "accuracy": describe_accuracy(entry.accuracy),
    }
    if entry.measured is not None:
        payload["measured"] = describe_report(entry.measured)
    return payload


def _make_contender(entry: Entry) -> Contender:
    if entry.planned is None:
        return Contender(entry.planner, status=entry.fault)
    predicted, result = entry.planned.predicted, entry.planned.result
    least_s = result.least_period_s  # known where throughput is the objective
    return Contender(
        entry.planner,
        predicted_s=predicted.quantile_s(0.5),
        measured_s=entry.measured.quantile_s(0.5) if entry.measured else None,
        images_per_second=predicted.images_per_second,
        moved_bytes=entry.planned.moved_bytes,
        search_s=result.search_s,
        status=result.status,
        inexact=describe_inexact(result.plan),
        accuracy=entry.accuracy,
        requests=entry.planned.requests,
        sustained_per_second=None if least_s is None else result.estimate.images_per_second,
    )
