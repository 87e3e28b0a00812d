"""What samples say of formats that compress, and what is said of those that a plan has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from partita.plan import Plan
from partita.planners import PlanOptions
from partita.quantisation import measure_shares
from partita.quantisation.samples import Feeds
from partita.regions import COMPRESSED, read_format


def are_compressed(options: PlanOptions) -> bool:
    """Whether a format is asked for whose payloads have no fixed length."""
    return any(wire in COMPRESSED for wire in (options.compress, *options.wires.values()))


def add_payloads(options: PlanOptions, samples: Sequence[Feeds]) -> PlanOptions:
    """The options with what samples say of formats that compress, if one is asked for."""
    if not samples or not are_compressed(options):
        return options
    return replace(options, payloads=partial(measure_shares, samples))


def describe_compressed(plan: Plan) -> list[str]:
    """A line on the tensors that travel compressed; none where there are none."""
    told = []
    for tensor, wire in plan.wires.items():
        form = read_format(wire)
        if form.method:
            told.append(f"{tensor} to {100 * form.share:.3g} % as {wire.partition('@')[0]}")
    return [f"Compressed:  {', '.join(told)}, expected"] if told else []
