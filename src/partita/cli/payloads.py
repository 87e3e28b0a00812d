"""What samples say of formats that compress, and what is said of those that a plan has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from partita.cli.flags import AccuracyFlags
from partita.cli.inputs import draw_inputs
from partita.cli.output import Reply
from partita.compile import compile_plan, planned_graph
from partita.cost import CostModel
from partita.exactness.compare import check_exactness
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import PlanOptions, get_planner
from partita.quantisation import measure_shares, read_data
from partita.quantisation.samples import Feeds
from partita.regions import COMPRESSED, read_format


def are_compressed(options: PlanOptions) -> bool:
    """Whether a format is asked for whose payloads have no fixed length."""
    return any(wire in COMPRESSED for wire in (options.compress, *options.wires.values()))


def flags_of_bits(
    flags: AccuracyFlags, planner: str, options: PlanOptions, *, given: bool
) -> AccuracyFlags:
    """The flags as far as they are of bits: none where samples only say what compressing saves.

    Args:
        given: Whether the model's bits are given already.

    Raises:
        PlanError: The planner is unknown.
    """
    is_alone = flags == AccuracyFlags(flags.samples) and are_compressed(options)
    may_choose = not given and chooses_bits(planner, options)
    return AccuracyFlags() if is_alone and not may_choose else flags


def chooses_bits(planner: str, options: PlanOptions) -> bool:
    """Whether a planner gives layers fewer bits: by itself, or since a setting says how many."""
    return get_planner(planner).chooses_bits(options.method)


def read_feeds(graph: Graph, texts: Sequence[str] | None) -> list[Feeds]:
    """The samples in files and folders, if some are named.

    Raises:
        InputError: One cannot be used.
    """
    return [sample.feeds for sample in read_data(graph, texts)] if texts else []


def add_payloads(options: PlanOptions, samples: Sequence[Feeds]) -> PlanOptions:
    """The options with what samples say of formats that compress, if one is asked for."""
    if not samples or not are_compressed(options):
        return options
    return replace(options, payloads=partial(measure_shares, samples))


def _describe_compressed(plan: Plan) -> list[str]:
    """A line on the tensors that travel compressed; none where there are none."""
    told = []
    for tensor, wire in plan.wires.items():
        form = read_format(wire)
        if form.method:
            told.append(f"{tensor} to {100 * form.share:.3g} % as {wire.partition('@')[0]}")
    return [f"Compressed:  {', '.join(told)}, expected"] if told else []


def add_wires(
    reply: Reply, cost: CostModel, plan: Plan, options: PlanOptions, samples: Sequence[Feeds]
) -> None:
    """Run the plan in this process and add what its formats do to the output, if it has some.

    Args:
        samples: The first is run; without one an input is drawn.
    """
    if options.compress is None and not plan.wires:
        return
    reply.payload["wires"] = dict(plan.wires)
    if not plan.wires:
        name = (
            "Lossy" if options.compress and not read_format(options.compress).is_exact else "Sent"
        )
        reply.shown.append(f"{name + ':':<13}no tensor; nothing would be faster")
        return
    reply.shown += _describe_compressed(plan)
    graph = planned_graph(cost.graph, plan)
    feeds = samples or draw_inputs(graph.input_specs, 1, options.seed)
    compiled = compile_plan(graph, plan, cost.cluster)
    differences = check_exactness(graph, compiled, feeds[:1])
    worst = max(each.relative for each in differences if each.tensor in graph.outputs)
    reply.payload["output_error"] = worst
    lossy = {name: wire for name, wire in plan.wires.items() if not read_format(wire).is_exact}
    if lossy:
        wires = ", ".join(f"{tensor} as {wire.partition('@')[0]}" for tensor, wire in lossy.items())
        source = "one sample" if samples else "one drawn input"
        reply.shown.append(
            f"Lossy:       {wires}; measured output error {worst:.2g} of the largest value, on"
            f" {source}"
        )
