"""Formats where they help: tensors may travel in fewer bits, or compressed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from partita.errors import PlanError
from partita.graph import Graph
from partita.graph.grids import find_grids
from partita.plan import Plan
from partita.planners.options import PlanOptions
from partita.planners.pricing.evaluator import Evaluator
from partita.regions import COMPRESSED, read_format, suits, with_share

_FLOATS = ("float32", "float64")


def allow_formats(
    graph: Graph, options: PlanOptions, tensors: Collection[str] | None = None
) -> PlanOptions:
    """Options with the format of ``compress`` for every tensor that it can carry.

    Formats that are given for single tensors stay, and quantised tensors travel as their codes,
    which can be compressed without loss. Of formats that compress samples say what is expected.

    Args:
        tensors: Those that are asked for; all that may travel by default.
    """
    given = {n: w for n, w in options.wires.items() if w in COMPRESSED and n in graph.tensors}
    wires = dict(options.wires) | _expect(graph, options, given)
    if options.compress is not None:
        names = _list_tensors(graph) if tensors is None else tensors
        allowed = {n: options.compress for n in names if _carries(graph, n, options.compress)}
        wires = _expect(graph, options, allowed) | wires
    return replace(options, wires=wires)


def _list_tensors(graph: Graph) -> list[str]:
    return [*graph.inputs, *(name for layer in graph.layers for name in layer.outputs)]


def _carries(graph: Graph, tensor: str, wire: str) -> bool:
    spec, form = graph.tensors[tensor], read_format(wire)
    if min(spec.shape, default=0) < 0 or not suits(wire, spec.shape):
        return False
    is_quantised = tensor in graph.remember(find_grids)
    if form.method == "zlib":
        return True
    if form.method and tensor in graph.outputs:
        return False  # numbers that are no pictures, whose digits are what was asked for
    kinds = (*_FLOATS, "uint8") if form.method else _FLOATS
    return spec.dtype in kinds and not is_quantised


def _expect(graph: Graph, options: PlanOptions, wires: dict[str, str]) -> dict[str, str]:
    """Formats with what is expected of them, where samples say so and it depends on them."""
    expected = dict(wires)
    for wire in {wire for wire in wires.values() if wire in COMPRESSED}:
        names = [name for name, asked in wires.items() if asked == wire]
        shares = options.payloads(graph, names, wire) if options.payloads else {}
        expected |= {name: with_share(wire, share) for name, share in shares.items()}
    return expected


def expect_again(evaluator: Evaluator, plan: Plan, given: PlanOptions) -> Plan:
    """A plan of a network that was quantised for it, with what is expected of its own codes.

    Args:
        given: Options before formats were added.
    """
    options = allow_formats(evaluator.graph, given, _list_travelling(evaluator, plan))
    return _with_wires(plan, dict(options.wires))


def drop_needless(evaluator: Evaluator, plan: Plan, given: PlanOptions) -> Plan:
    """The plan with those tensors as they are that do not travel, or gain nothing by a format.

    Args:
        plan: With formats for all tensors.
        given: Options before formats were added; the formats they name stay.
    """
    travels = _list_travelling(evaluator, plan)
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


def _list_travelling(evaluator: Evaluator, plan: Plan) -> set[str]:
    return {stream.tensor for stream in evaluator.problem.layout(plan).program.streams}


def _with_wires(plan: Plan, wires: dict[str, str]) -> Plan:
    return msgspec.structs.replace(plan, wires=wires)
