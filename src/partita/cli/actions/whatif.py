"""What changes would gain, and what is said of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from partita.cli.actions.plan import make_options
from partita.cli.costs import read_cost
from partita.cli.flags import ModelFiles, PlanFiles
from partita.cli.output import Reply, progress_bar
from partita.cli.payloads import read_feeds
from partita.cli.sources import read_model, read_plan
from partita.cluster import load_cluster
from partita.cost import CostModel
from partita.errors import InputError
from partita.plan import Plan
from partita.planners import PlanOptions
from partita.planners.gains import Outcome, WhatIf, what_if
from partita.planners.options import options_of
from partita.planners.result import Estimate
from partita.planners.variations import (
    Change,
    add_devices,
    combine,
    compress,
    give_memory,
    speed_links,
    usual_variations,
)
from partita.quantisation import measure_shares
from partita.regions import WIRE_FORMATS, is_plan_format
from partita.report.bottleneck import busy_shares, describe_bottleneck
from partita.report.tables import NOTHING, TableData, drop_empty
from partita.report.text import draw_table
from partita.simulation import predict
from partita.units import format_seconds, parse_quantity

__all__ = ["WhatIfFlags", "ask_for_model", "ask_for_plan", "is_plan", "make_options"]

_FACTOR = re.compile(r"(\d+(?:\.\d+)?)x")
#: More of a device than this nobody buys to try.
_MOST_ADDED = 64
#: Requests of the predicted run, per request in flight: enough for a steady state.
_ROUNDS = 8


@dataclass(frozen=True)
class WhatIfFlags:
    """Changes to be judged, as texts; without any the usual ones are."""

    add: Sequence[str] | None
    link: Sequence[str] | None
    memory: Sequence[str] | None
    compress: Sequence[str] | None
    samples: Sequence[str] | None
    planner: str


def is_plan(path: Path) -> bool:
    """Whether a file is a plan, which is JSON; whatever else it is, it is read as a model."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def ask_for_plan(files: PlanFiles, wanted: WhatIfFlags, budget_s: float | None) -> Reply:
    """What changes gain over a plan.

    Raises:
        InputError: A flag or file cannot be used.
        PlanError: The plan is not for the model and cluster.
    """
    changes = parse_changes(wanted)
    loaded = read_plan(files)
    cost = read_cost(loaded.graph, loaded.cluster, files)
    options = replace(options_of(loaded.plan), budget_s=budget_s)
    return _answer(cost, loaded.plan, options, wanted, changes)


def ask_for_model(files: ModelFiles, wanted: WhatIfFlags, options: PlanOptions) -> Reply:
    """What changes gain over the plan that is found for a model on a cluster.

    Raises:
        InputError: A flag or file cannot be used.
        InfeasibleError: There is no plan.
    """
    changes = parse_changes(wanted)
    graph, cluster = read_model(files), load_cluster(files.cluster)
    return _answer(read_cost(graph, cluster, files), None, options, wanted, changes)


def _answer(
    cost: CostModel,
    plan: Plan | None,
    options: PlanOptions,
    wanted: WhatIfFlags,
    changes: Sequence[Change],
) -> Reply:
    samples = read_feeds(cost.graph, wanted.samples)
    if samples:
        options = replace(options, payloads=partial(measure_shares, samples))
    variations = [change(cost, options) for change in changes]
    if len(changes) > 1:
        variations.append(combine(cost, options, changes))
    variations = variations or usual_variations(cost, options)
    with progress_bar("what if") as advance:
        told: list[str] = []

        def tell(name: str) -> None:
            advance(len(told), len(variations) + 1, name)
            told.append(name)

        found = what_if(
            cost,
            plan,
            variations=variations,
            options=options,
            planner=wanted.planner,
            progress=tell,
        )
    return _reply(cost, found)


def parse_changes(wanted: WhatIfFlags) -> list[Change]:
    """The changes that flags name.

    Raises:
        InputError: One is not understood; the message says what is allowed.
    """
    return [
        *map(_parse_add, wanted.add or ()),
        *map(_parse_link, wanted.link or ()),
        *map(_parse_memory, wanted.memory or ()),
        *map(_parse_compress, wanted.compress or ()),
    ]


def _parse_add(text: str) -> Change:
    kind, colon, digits = text.rpartition(":")
    kind, digits = (kind, digits) if colon else (text, "1")
    count = int(digits) if digits.isdecimal() else 0
    if not kind or not 1 <= count <= _MOST_ADDED:
        raise _refuse("--add", text, f"KIND or KIND:NUMBER, up to {_MOST_ADDED}")
    return lambda cost, options: add_devices(cost, options, kind, count)


def _parse_link(text: str) -> Change:
    ends, equals, amount = text.rpartition("=")
    names = ends.split(":") if equals else []
    if equals and (len(names) != 2 or not all(names)):
        raise _refuse("--link", text, "'1 Gbit/s', 2x, or A:B=RATE between two devices")
    pair = (names[0], names[1]) if equals else None
    factor, rate = _parse_amount("--link", amount, "bandwidth")
    return lambda cost, options: speed_links(
        cost, options, bytes_per_s=rate, factor=factor, pair=pair
    )


def _parse_memory(text: str) -> Change:
    device, equals, amount = text.rpartition("=")
    if equals and not device:
        raise _refuse("--memory", text, "'2 GB', 2x, or DEVICE=SIZE")
    factor, size = _parse_amount("--memory", amount, "bytes")
    return lambda cost, options: give_memory(
        cost,
        options,
        memory_bytes=None if size is None else int(size),
        factor=factor,
        device=device or None,
    )


def _parse_compress(text: str) -> Change:
    if text == "raw" or not is_plan_format(text):
        raise _refuse("--compress", text, ", ".join(name for name in WIRE_FORMATS if name != "raw"))
    return lambda cost, options: compress(cost, options, text)


def _parse_amount(flag: str, text: str, quantity: Any) -> tuple[float, float | None]:
    """A factor, or 1 and an amount."""
    match = _FACTOR.fullmatch(text.strip())
    try:
        factor = float(match[1]) if match else 1.0
        value = None if match else parse_quantity(text, quantity)
    except ValueError as error:
        raise InputError(
            f"{flag} '{text}': {error}; or a factor, such as 2x.", subject=text
        ) from None
    if not 0 < (factor if value is None else value) < inf:
        raise _refuse(flag, text, "amounts above zero")
    return factor, value


def _refuse(flag: str, text: str, allowed: str) -> InputError:
    return InputError(f"{flag} '{text}' is not understood; allowed: {allowed}.", subject=text)


def _reply(cost: CostModel, found: WhatIf) -> Reply:
    """The ranked table, and what bounds the plan of now, in a sentence."""
    plan = found.plan
    requests = 1 if plan.in_flight == 1 else _ROUNDS * plan.in_flight
    predicted = predict(cost.of_plan(plan), plan, requests=requests, keep_spans=False)
    bottleneck = describe_bottleneck(busy_shares(predicted))
    payload = {
        "objective": plan.objective,
        "now": _describe(found.estimate),
        "bottleneck": bottleneck,
        "changes": [_describe_outcome(outcome) for outcome in found.outcomes],
    }
    shown: list[RenderableType] = [
        draw_table(_tabulate(found)),
        f"Now:         {_show(found.estimate, plan.objective)}; {bottleneck}",
    ]
    return Reply(payload, shown)


def _describe(estimate: Estimate) -> dict[str, Any]:
    return {
        "latency_s": estimate.latency_s,
        "images_per_second": estimate.images_per_second,
        "energy_joules": estimate.energy_joules,
    }


def _describe_outcome(outcome: Outcome) -> dict[str, Any]:
    known = _describe(outcome.estimate) if outcome.estimate else {}
    return {
        "name": outcome.variation.name,
        "gain": outcome.gain,
        "most_gain": outcome.most_gain if isfinite(outcome.most_gain) else None,
        "is_exact": outcome.variation.is_exact,
        "fault": outcome.fault,
        **known,
    }


def _tabulate(found: WhatIf) -> TableData:
    rows = tuple(
        (
            outcome.variation.name,
            _show(outcome.estimate, found.plan.objective) if outcome.estimate else "no plan",
            f"{outcome.gain:.2f}x" if outcome.estimate else NOTHING,
            f"{outcome.most_gain:.2f}x" if isfinite(outcome.most_gain) else NOTHING,
        )
        for outcome in found.outcomes
    )
    columns = ("what if", "predicted", "gain", "no plan gains more than")
    return drop_empty(TableData("Changes by what they gain", columns, rows))


def _show(estimate: Estimate, objective: str) -> str:
    """What the objective measures, for people."""
    if objective == "throughput":
        return f"{estimate.images_per_second:.3g} images/s"
    if objective == "energy":
        return f"{estimate.energy_joules:.3g} J"
    if objective == "memory":
        return f"{max(estimate.memory_bytes.values(), default=0) / 1e6:.3g} MB at most"
    return format_seconds(estimate.latency_s)
