"""Deciding how to divide a model, and what is said of the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from partita.adapting.tuning import Tuned
from partita.cli.access import read_access
from partita.cli.accuracy import (
    add_judged,
    ask_accuracy,
    check_accuracy,
    measure_outputs,
    name_asked,
)
from partita.cli.actions.fallback import add_fallback_plan
from partita.cli.actions.real import learns, open_runs, tune_plan
from partita.cli.costs import profile_files, read_cost, say_unmeasured
from partita.cli.flags import AccessFlags, AccuracyFlags, ModelFiles
from partita.cli.output import Reply, check_output, write_output
from partita.cli.payloads import (
    add_payloads,
    add_wires,
    chooses_bits,
    flags_of_bits,
    read_feeds,
)
from partita.cli.replies import describe_report
from partita.cli.sources import name_sources, parse_pairs, read_model
from partita.cluster import Cluster, load_cluster
from partita.compile import account_layout, planned_graph
from partita.cost import CostModel
from partita.errors import InputError
from partita.execution import Report
from partita.plan import Plan, Stage, dump_plan
from partita.planners import OBJECTIVES, Estimate, PlanOptions, Result, find_plan
from partita.planners.result import say_bound
from partita.regions import WIRE_FORMATS, is_plan_format
from partita.report import plan_table, report_tables
from partita.report.tables import TableData, describe_path
from partita.report.text import draw_table
from partita.simulation import predict
from partita.units import format_bytes, format_count, format_seconds

#: Requests in flight where throughput is what counts and no number is given.
_THROUGHPUT_IN_FLIGHT = 4
#: Requests of the predicted run, per request in flight: enough for a steady state.
_ROUNDS = 8


@dataclass(frozen=True)
class Planned:
    """A planner's answer, and the predicted run of its plan.

    Attributes:
        moved_bytes: Sent for one request.
        requests: Of the predicted run.
    """

    result: Result
    predicted: Report
    moved_bytes: int
    requests: int


def decide(
    files: ModelFiles,
    planner: str,
    options: PlanOptions,
    access: AccessFlags | None,
    output: Path | None,
    *,
    accuracy: AccuracyFlags,
) -> Reply:
    """Plan, write the plan file, and say what is predicted and whether splitting is worth it.

    Args:
        access: Of the workers whose runs the method learns from; None where it asks predictions.
        output: The plan file; None writes none.
        accuracy: What fewer bits may cost.

    Raises:
        InputError: A file cannot be used, or the planner does not learn from runs.
        PlanError: There is no plan.
    """
    of_bits = flags_of_bits(accuracy, planner, options, given=files.bits is not None)
    _check_flags(files, planner, output, of_bits)
    chooses = bool(of_bits.samples) and chooses_bits(planner, options)
    graph, cluster = read_model(files, chooses_bits=chooses), load_cluster(files.cluster)
    cost = read_cost(graph, cluster, files)
    asked = ask_accuracy(options, graph, cluster, of_bits)
    samples = asked.samples or read_feeds(graph, accuracy.samples)
    planned, tuned = _plan(cost, planner, add_payloads(asked.options, samples), access)
    finer = measure_outputs(asked, planned.result)
    if finer is not None:
        asked = finer
        planned, tuned = _plan(cost, planner, add_payloads(asked.options, samples), access)
    plan = planned.result.plan
    if chooses:
        say_unmeasured(cost.of_plan(plan))
    reply = Reply(describe_planned(planned), _show_planned(planned, cluster))
    if asked.options.quantisation is not None:
        add_judged(reply, planned.result, asked)
    _add_swapped(reply, planned.result, cluster)
    add_fallback_plan(reply, cost, plan)
    if tuned is not None:
        _add_rounds(reply, tuned)
    add_wires(reply, cost, plan, options, samples)
    if output is not None:
        named = name_sources(plan, files.model, files.cluster, files.shapes)
        _write_plan(reply, output, name_asked(named, asked.flags))
    return reply


def _show_planned(planned: Planned, cluster: Cluster) -> list[RenderableType]:
    return [
        plan_table(planned.result.plan, cluster.names),
        *report_tables(planned.predicted),
        *describe_verdict(planned.result),
        *describe_decision(planned.predicted),
    ]


def _write_plan(reply: Reply, output: Path, plan: Plan) -> None:
    write_output(output, dump_plan(plan))
    reply.payload["file"] = str(output)
    reply.shown.append(f"Written to {output}")


def _check_flags(
    files: ModelFiles,
    planner: str,
    output: Path | None,
    accuracy: AccuracyFlags,
) -> None:
    """Refuse outputs and flags that cannot be, before the work begins."""
    read = (files.model, files.cluster, files.bits, *profile_files(files.profiles))
    check_output(output, *read)
    check_output(accuracy.pareto, *read, beside=output)
    has_bits = files.bits is not None
    check_accuracy(accuracy, [planner], has_bits=has_bits, compresses=False)


def make_options(
    objective: str,
    budget_s: float | None,
    seed: int,
    in_flight: int | None,
    settings: Sequence[str] | None,
    *,
    keep_on: Sequence[str] | None = None,
    wires: Sequence[str] | None = None,
    compress: str | None = None,
    axes: Sequence[str] | None = None,
    energy_limits: Sequence[str] | None = None,
    simple: bool = False,
    swap: bool = False,
) -> PlanOptions:
    """Planner options from the texts of flags.

    Raises:
        InputError: A flag has a value that is not allowed.
    """
    chosen = next((known for known in OBJECTIVES if known == objective), None)
    if chosen is None:
        raise InputError(
            f"--objective is '{objective}', allowed: {', '.join(OBJECTIVES)}.", subject=objective
        )
    formats = parse_pairs("--wire", wires)
    for tensor, wire in formats.items():
        if not is_plan_format(wire):
            raise InputError(
                f"--wire {tensor}={wire}: allowed formats: {', '.join(WIRE_FORMATS)}.", subject=wire
            )
    lossy = [wire for wire in WIRE_FORMATS if wire != "raw"]
    if compress is not None and compress not in ("none", *lossy):
        raise InputError(
            f"--compress is '{compress}', allowed: none, {', '.join(lossy)}.", subject=compress
        )
    return PlanOptions(
        objective=chosen,
        budget_s=budget_s,
        seed=seed,
        in_flight=in_flight or (_THROUGHPUT_IN_FLIGHT if chosen == "throughput" else 1),
        keep_on={tensor: device for device, tensor in parse_pairs("--keep-on", keep_on).items()},
        wires=formats,
        axes=tuple(axes) if axes else None,
        compress=None if compress == "none" else compress,
        energy_limits=_parse_joules(energy_limits),
        method=parse_pairs("--set", settings),
        simple=simple,
        swap=swap,
    )


def _parse_joules(texts: Sequence[str] | None) -> dict[str, float]:
    limits = {}
    for device, text in parse_pairs("--energy-limit", texts).items():
        try:
            limits[device] = float(text)
        except ValueError:
            raise InputError(
                f"--energy-limit {device}={text}: must be a number of joules.", subject=device
            ) from None
    return limits


def plan_model(cost: CostModel, planner: str, options: PlanOptions) -> Planned:
    """One planner's answer, simulated.

    Raises:
        PlanError: As the planner.
    """
    return predict_plan(cost, find_plan(cost, planner=planner, options=options), options)


def predict_plan(cost: CostModel, result: Result, options: PlanOptions) -> Planned:
    """A planner's answer, simulated under ``cost``."""
    cost = cost.of(planned_graph(cost.graph, result.plan))
    requests = 1 if options.in_flight == 1 else _ROUNDS * options.in_flight
    predicted = predict(cost, result.plan, requests=requests)
    sent_bytes = account_layout(cost.graph, cost.layout(result.plan)).sent_bytes
    return Planned(result, predicted, round(sent_bytes), requests)


def describe_planned(planned: Planned) -> dict[str, Any]:
    """A planner's answer as JSON."""
    result = planned.result
    return describe_report(planned.predicted) | {
        "status": result.status,
        "note": result.note,
        "objective": result.plan.objective,
        "lower_bound_s": result.lower_bound_s,
        "period_s": result.estimate.period_s,
        "least_period_s": result.least_period_s,
        "worth_splitting": result.worth_splitting,
        "best_single_s": result.best_single_s,
        "moved_bytes": planned.moved_bytes,
        "energy_joules": result.estimate.energy_joules,
        "search_s": result.search_s,
        "evaluations": result.evaluations,
        "last_half_gain": result.last_half_gain,
        "advice": list(result.advice),
        "stages": [_describe_stage(stage) for stage in result.plan.stages],
    }


def _describe_stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "axis": stage.axis,
        "layers": list(stage.layers),
        "devices": [shard.device for shard in stage.shards],
        "merge": [shard.device for shard in stage.merge],
        "shares": list(stage.shares),
    }


def describe_verdict(result: Result) -> list[str]:
    """What is said of a plan, line by line: who made it, what it costs, and is it worth it."""
    return [
        f"Planner:     {result.plan.planner} ({result.status}{result.note and ': ' + result.note}),"
        f" {format_count(result.evaluations, 'plan')} priced in {format_seconds(result.search_s)}",
        *_describe_search(result),
        f"Latency:     {format_seconds(result.latency_s)} predicted{_describe_setting(result)}"
        f"{say_bound(result.lower_bound_s, result.latency_s)}",
        *_describe_rate(result),
        f"Energy:      {result.estimate.energy_joules:.3g} J of computing per request",
        f"Splitting:   {_describe_gain(result)}",
        *(f"Why:         {sentence}" for sentence in result.advice),
    ]


def _describe_setting(result: Result) -> str:
    """Whose latency it is, where requests under way make each other wait."""
    return " of a request alone" if result.estimate.in_flight > 1 else ""


def _describe_search(result: Result) -> list[str]:
    """Whether more time would help, in a line; none where nothing tells."""
    gain = result.last_half_gain
    if gain is None:
        return []
    return [
        f"Search:      {format_seconds(result.search_s)}, the last half gained {100 * gain:.1f} %"
    ]


def _describe_rate(result: Result) -> list[str]:
    """How often requests are answered, in a line; none where that is not the objective."""
    estimate, least_s = result.estimate, result.least_period_s
    if least_s is None:
        return []
    bound = "no bound is known"  # none was proven, in a small budget say
    if least_s > 0:
        bound = (
            f"no plan can do better than {1 / least_s:.4g}"
            f" ({100 * least_s / estimate.period_s:.0f} % of it)"
        )
    return [
        f"Throughput:  {estimate.images_per_second:.4g} per second predicted in the long run with"
        f" {estimate.in_flight} in flight, {bound}"
    ]


def describe_decision(predicted: Report) -> list[str]:
    """What the latency is made of, in a line; none where no steps are known."""
    words = describe_path(predicted)
    return [f"Decides:     {words}"] if words else []


def _describe_gain(result: Result) -> str:
    """Whether splitting is worth it, in what the objective measures."""
    if result.single is None:
        return "needed, no single device can hold the network"
    objective = result.plan.objective
    (divided, _), (single, text) = (
        _measure(objective, estimate) for estimate in (result.estimate, result.single)
    )
    how = "faster" if objective in ("latency", "throughput") else "less"
    gain = f"{single / divided:.2f}x {how} than the best single device ({text})"
    devices = {shard.device for stage in result.plan.stages for shard in stage.shards}
    if len(devices) == 1 and result.worth_splitting:
        return f"none, one device computes all: {gain}, by fewer bits"
    if result.worth_splitting:
        return f"worth it, {gain}"
    if result.plan.planner == "single":
        return f"not looked at by planner 'single', whose device takes {text}"
    if len(devices) > 1 and divided < single:
        return f"no real difference, {gain}: predictions are off by as much"
    return f"not worth it, the best single device takes {text}"


def _measure(objective: str, estimate: Estimate) -> tuple[float, str]:
    """What the objective makes small, as a number and in words."""
    if objective == "latency":
        return estimate.latency_s, format_seconds(estimate.latency_s)
    if objective == "throughput":
        return estimate.period_s, f"{format_seconds(estimate.period_s)} per request under load"
    if objective == "energy":
        return estimate.energy_joules, f"{estimate.energy_joules:.3g} J per request"
    largest_bytes = max(estimate.memory_bytes.values(), default=0)
    return largest_bytes, f"{format_bytes(largest_bytes)} of memory"


def _plan(
    cost: CostModel, planner: str, options: PlanOptions, access: AccessFlags | None
) -> tuple[Planned, Tuned | None]:
    """A planner's answer; with ``access`` from runs, or tuned by them."""
    if access is None:
        return plan_model(cost, planner, options), None
    with open_runs(cost, read_access(access), options.seed) as run:
        if learns(planner):
            learning = replace(options, measure=partial(_median_s, run))
            return plan_model(cost, planner, learning), None
        tuned, result = tune_plan(cost, planner, options, run)
    return predict_plan(tuned.cost, result, options), tuned


def _median_s(run: Callable[[Plan], Report], plan: Plan) -> float:
    return run(plan).quantile_s(0.5)


def _add_rounds(reply: Reply, tuned: Tuned) -> None:
    """The rounds of tuning, and what was learned of each device."""
    rows, rounds = [], []
    for number, done in enumerate(tuned.rounds, start=1):
        expected_s = done.predicted_s
        mark = "the plan" if done is tuned.best else ""
        rows.append((str(number), format_seconds(expected_s), format_seconds(done.seconds), mark))
        rounds.append({"predicted_s": expected_s, "measured_s": done.seconds})
    columns = ("round", "predicted", "measured", "")
    slowness = tuned.rounds[-1].slowness
    reply.payload |= {"rounds": rounds, "slowness": dict(slowness)}
    factors = ", ".join(f"{name} {factor:.2f}x" for name, factor in slowness.items())
    reply.shown += [
        draw_table(TableData("Tuned on the cluster: seconds per request", columns, tuple(rows))),
        f"Computing:   {factors} of what profiles say",
    ]


def _add_swapped(reply: Reply, result: Result, cluster: Cluster) -> None:
    """Which devices that may swap hold more than their memory, by how much, and at what cost."""
    if not result.plan.may_swap:
        return
    over = cluster.overflow_bytes(result.estimate.memory_bytes, swap=False)
    reply.payload["swapped_bytes"] = over
    parts = [
        f"{format_bytes(size)} on {name}, {format_seconds(size / rate)}"
        for name, size in over.items()
        if (rate := cluster.device(name).swap_bytes_per_s)
    ]
    reply.shown.append(f"Swapping:    {'; '.join(parts) or 'nothing, all fits in memory'}")
