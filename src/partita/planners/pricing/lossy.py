"""Lossy transfers where they help: tensors of floating point may travel in fewer bits."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from partita.errors import PlanError
from partita.graph import Graph
from partita.graph.grids import find_grids
from partita.plan import Plan
from partita.planners.options import PlanOptions
from partita.planners.pricing.evaluator import Evaluator

_FLOATS = ("float32", "float64")


def allow_lossy(graph: Graph, options: PlanOptions) -> PlanOptions:
    """Options with the format of ``compress`` for every tensor that it can carry.

    Formats that are given for single tensors stay, and quantised tensors travel as their codes.
    """
    if options.compress is None:
        return options
    formats = {
        name: options.compress
        for name, spec in graph.tensors.items()
        if spec.dtype in _FLOATS and name not in graph.remember(find_grids)
    }
    return replace(options, wires={**formats, **options.wires})


def drop_needless(evaluator: Evaluator, plan: Plan, given: PlanOptions) -> Plan:
    """The plan with those tensors raw that do not travel, or gain nothing by being lossy.

    Args:
        plan: With lossy formats for all tensors.
        given: Options before formats were added; the formats they name stay.
    """
    travels = {stream.tensor for stream in evaluator.problem.layout(plan).program.streams}
    wires = {t: w for t, w in plan.wires.items() if t in travels or t in given.wires}
    plan = _with_wires(plan, wires)
    full = evaluator.options.objective == "throughput"  # what is simulated is asked for by no other
    score = evaluator.rate(evaluator.evaluate(plan, full=full))[0]
    for tensor in [t for t in wires if t not in given.wires]:
        raw = _with_wires(plan, {t: w for t, w in plan.wires.items() if t != tensor})
        try:
            changed = evaluator.rate(evaluator.evaluate(raw, full=full))[0]
        except PlanError:
            continue
        if changed <= score * (1 + 1e-9):
            plan, score = raw, changed
    return plan


def _with_wires(plan: Plan, wires: dict[str, str]) -> Plan:
    return msgspec.structs.replace(plan, wires=wires)
