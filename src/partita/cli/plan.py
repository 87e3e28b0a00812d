"""``partita plan``: decide how to divide a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.credentials import read_access
from partita.cli.flags import (
    AuthorityOpt,
    AxesOpt,
    BudgetOpt,
    CertificateOpt,
    ClusterOpt,
    CompressOpt,
    DebugOpt,
    EnergyOpt,
    EstimatorOpt,
    InFlightOpt,
    InsecureOpt,
    JsonOpt,
    KeepOpt,
    KeyOpt,
    ModelArg,
    ObjectiveOpt,
    PlannerOpt,
    ProfileOpt,
    SeedOpt,
    SetOpt,
    ShapeOpt,
    WireOpt,
)
from partita.cli.real import RealOpt, check_learns, open_measure


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("plan")
    def plan(
        model: ModelArg,
        cluster: ClusterOpt,
        planner: PlannerOpt = "best",
        objective: ObjectiveOpt = "latency",
        budget: BudgetOpt = 60.0,
        seed: SeedOpt = 0,
        in_flight: InFlightOpt = None,
        keep_on: KeepOpt = None,
        wire: WireOpt = None,
        compress: CompressOpt = None,
        axis: AxesOpt = None,
        energy_limit: EnergyOpt = None,
        settings: SetOpt = None,
        real: RealOpt = False,
        insecure: InsecureOpt = False,
        authority: AuthorityOpt = None,
        certificate: CertificateOpt = None,
        key: KeyOpt = None,
        profile: ProfileOpt = None,
        estimator: EstimatorOpt = "table",
        shape: ShapeOpt = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="Plan file to write.")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Decide; print the prediction, a lower bound, and whether splitting is worth it at all."""
        from partita.cli.output import check_output, print_reply
        from partita.cli.sources import name_sources, profile_files, read_cost, read_graph
        from partita.cluster import load_cluster

        check_output(output, model, cluster, *profile_files(profile))
        graph, lab = read_graph(model, shape), load_cluster(cluster)
        kept: Any = {
            "in_flight": in_flight,
            "keep_on": keep_on,
            "wires": wire,
            "settings": settings,
        }
        options = make_options(objective, budget, seed, **kept)
        options = restrict(options, compress, axis, energy_limit)
        cost = read_cost(graph, lab, profile, estimator)
        if real:
            files = {"authority": authority, "certificate": certificate, "key": key}
            reply, found = plan_really(cost, planner, options, read_access(None, insecure, **files))
        else:
            reply, found = plan_model(cost, planner, options)
        _add_error(reply, (graph, found, lab), options)
        if output is not None:
            write_plan(output, name_sources(found, model, cluster, shape))
            reply.payload["file"] = str(output)
            reply.shown.append(f"Written to {output}")
        return print_reply(reply, as_json=json)


def make_options(
    objective: str,
    budget_s: float,
    seed: int,
    *,
    in_flight: int | None = None,
    keep_on: Sequence[str] | None = None,
    wires: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
) -> Any:
    """Return planner options from flags.

    Raises:
        InputError: A flag has a value that is not allowed.
    """
    from partita.cli.sources import parse_pairs, swap_pairs
    from partita.errors import InputError
    from partita.planners import OBJECTIVES, PlanOptions
    from partita.regions import WIRE_FORMATS

    if objective not in OBJECTIVES:
        raise InputError(
            f"--objective is '{objective}', allowed: {', '.join(OBJECTIVES)}.", subject=objective
        )
    if budget_s < 0 or (in_flight is not None and in_flight < 1):
        raise InputError("--budget must be at least 0 and --in-flight at least 1.")
    formats = parse_pairs("--wire", wires)
    for tensor, wire in formats.items():
        if wire not in WIRE_FORMATS:
            raise InputError(
                f"--wire {tensor}={wire}: allowed formats: {', '.join(WIRE_FORMATS)}.", subject=wire
            )
    return PlanOptions(
        objective=objective,
        budget_s=budget_s,
        seed=seed,
        in_flight=in_flight or (4 if objective == "throughput" else 1),
        keep_on=swap_pairs(parse_pairs("--keep-on", keep_on)),
        wires=formats,
        method=parse_pairs("--set", settings),
    )


def plan_really(cost: Any, planner: str, options: Any, access: Any) -> tuple[Any, Any]:
    """Return the reply and the plan of a planner that learns from runs on the cluster.

    Raises:
        InputError: The planner does not learn from runs.
    """
    check_learns(planner)
    with open_measure(cost, access, options.seed) as measure:
        return plan_model(cost, planner, replace(options, measure=measure))


def restrict(
    options: Any,
    compress: str | None,
    axes: Sequence[str] | None,
    energy_limits: Sequence[str] | None,
) -> Any:
    """Return options with what plans may do: lossy transfers, axes, joules per request.

    Raises:
        InputError: A flag has a value that is not allowed.
    """
    from dataclasses import replace

    from partita.cli.sources import parse_pairs
    from partita.errors import InputError
    from partita.regions import WIRE_FORMATS

    lossy = [one for one in WIRE_FORMATS if one != "raw"]
    if compress is not None and compress not in ("none", *lossy):
        raise InputError(
            f"--compress is '{compress}', allowed: none, {', '.join(lossy)}.", subject=compress
        )
    limits: dict[str, float] = {}
    for device, text in parse_pairs("--energy-limit", energy_limits).items():
        try:
            limits[device] = float(text)
        except ValueError:
            raise InputError(
                f"--energy-limit {device}={text}: must be a number of joules.", subject=device
            ) from None
    return replace(
        options,
        compress=None if compress == "none" else compress,
        axes=tuple(axes) if axes else None,
        energy_limits=limits,
    )


def _add_error(reply: Any, planned: tuple[Any, Any, Any], options: Any) -> None:
    """Run the plan in this process and add what its lossy transfers do to the output."""
    from partita.cli.inputs import draw_inputs
    from partita.compile import compile_plan
    from partita.exactness.compare import check_exactness

    graph, plan, cluster = planned
    if options.compress is None and not plan.wires:
        return
    reply.payload["wires"] = dict(plan.wires)
    if not plan.wires:
        reply.shown.append("Lossy:       no tensor; nothing would be faster")
        return
    compiled = compile_plan(graph, plan, cluster)
    found = check_exactness(graph, compiled, draw_inputs(graph.input_specs, 1, options.seed))
    worst = max(one.relative for one in found if one.tensor in graph.outputs)
    reply.payload["output_error"] = worst
    reply.shown.append(
        f"Lossy:       {', '.join(f'{t} as {w}' for t, w in plan.wires.items())};"
        f" measured output error {worst:.2g} of the largest value, on one drawn input"
    )


def plan_model(cost: Any, planner: str, options: Any) -> tuple[Any, Any]:
    """Return the reply and the plan of one planner.

    Raises:
        InputError: A tensor is to travel lossy that the model does not have.
        PlanError: As the planner.
    """
    from partita.cli.output import Reply
    from partita.cli.replies import describe_report
    from partita.compile import account_layout
    from partita.planners import find_plan
    from partita.report import plan_table, report_tables
    from partita.simulation import simulate

    _check_wires(cost.graph, options.wires)
    result = find_plan(cost, planner=planner, options=options)
    layout = cost.layout(result.plan)
    requests = 1 if options.in_flight == 1 else 8 * options.in_flight
    predicted = simulate(
        layout.program,
        cost.price(layout),
        requests=requests,
        planner=result.plan.planner,
        seed=options.seed,
    )
    payload = describe_report(predicted) | {
        "status": result.status,
        "objective": options.objective,
        "lower_bound_s": result.lower_bound_s,
        "worth_splitting": result.worth_splitting,
        "best_single_s": result.best_single_s,
        "moved_bytes": round(account_layout(cost.graph, layout).sent_bytes),
        "energy_joules": result.estimate.energy_joules,
        "search_s": result.search_s,
        "evaluations": result.evaluations,
        "stages": [describe_stage(stage) for stage in result.plan.stages],
    }
    tables = report_tables(predicted)
    return Reply(
        payload, [plan_table(result.plan, cost.cluster.names), *tables, *_verdict(result)]
    ), result.plan


def _check_wires(graph: Any, wires: Any) -> None:
    from partita.errors import InputError

    for tensor in wires:
        if tensor not in graph.tensors:
            raise InputError(
                f"--wire names tensor '{tensor}', which model '{graph.name}' does not have. Its"
                f" inputs are {', '.join(graph.inputs)}; 'inspect' lists the others.",
                subject=tensor,
            )


def describe_stage(stage: Any) -> dict[str, Any]:
    """Return a stage as JSON: what it holds and who has which part."""
    return {
        "name": stage.name,
        "axis": stage.axis,
        "layers": list(stage.layers),
        "devices": [shard.device for shard in stage.shards],
        "merge": [shard.device for shard in stage.merge],
    }


def _verdict(result: Any) -> list[str]:
    from partita.units import format_seconds

    lines = [
        f"Planner:     {result.plan.planner} ({result.status}),"
        f" {result.evaluations} plans priced in {format_seconds(result.search_s)}",
        f"Latency:     {format_seconds(result.latency_s)} predicted,"
        f" no plan can do better than {format_seconds(result.lower_bound_s)}",
    ]
    lines.append(f"Energy:      {result.estimate.energy_joules:.3g} J of computing per request")
    return [*lines, f"Splitting:   {describe_gain(result)}"]


def describe_gain(result: Any) -> str:
    """Return whether splitting is worth it, in what the objective measures.

    Args:
        result: A planner's :class:`partita.planners.Result`.
    """
    measures = {"latency": _in_latency, "throughput": _in_throughput, "energy": _in_energy}
    single, objective = result.single, result.plan.objective
    if single is None:
        return "needed, no single device can hold the network"
    measure = measures.get(objective, _in_memory)
    (ours, _), (alone, words) = measure(result.estimate), measure(single)
    if not result.worth_splitting:
        return f"not worth it, the best single device takes {words}"
    how = "faster" if objective in ("latency", "throughput") else "less"
    return f"worth it, {alone / ours:.2f}x {how} than the best single device ({words})"


def _in_latency(estimate: Any) -> tuple[float, str]:
    from partita.units import format_seconds

    return estimate.latency_s, format_seconds(estimate.latency_s)


def _in_throughput(estimate: Any) -> tuple[float, str]:
    from partita.units import format_seconds

    return estimate.period_s, f"{format_seconds(estimate.period_s)} per request under load"


def _in_energy(estimate: Any) -> tuple[float, str]:
    return estimate.energy_joules, f"{estimate.energy_joules:.3g} J per request"


def _in_memory(estimate: Any) -> tuple[float, str]:
    from partita.units import format_bytes

    most = max(estimate.memory_bytes.values(), default=0)
    return most, f"{format_bytes(most)} of memory"


def write_plan(path: Path, plan: Any) -> None:
    """Write a plan file whole or not at all."""
    from partita.cli.output import write_output
    from partita.plan import dump_plan

    write_output(path, dump_plan(plan))
