"""Answers of a run, each beside the whole model of the plan that gave it; those of a fallback."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from partita.cli.output import Reply
from partita.cli.sources import Loaded
from partita.compile import compile_plan, planned_graph
from partita.exactness.compare import compare_answers, is_lossy_plan, tolerance_of
from partita.plan import Plan, hash_plan
from partita.quantisation.outputs import Reference
from partita.quantisation.samples import Feeds
from partita.report import Checked

#: Answers of a fallback whose network is run beside the whole one. Not tuned.
_MEASURED = 8


def check_answers(
    loaded: Loaded, feeds: Sequence[Feeds], answers: Sequence[Feeds], answered_by: Sequence[Plan]
) -> Checked:
    """How far the answers are from the whole model's, by the rule of ``partita check``.

    That is the whole model with the bits of the plan that gave the answer.

    Args:
        answered_by: The plan that gave each answer.
    """
    lossy = any(map(is_lossy_plan, answered_by))
    worst, in_bits = [], False
    for model in dict.fromkeys(plan.model.hash for plan in answered_by):
        numbers = [n for n, plan in enumerate(answered_by) if plan.model.hash == model]
        plans = {hash_plan(answered_by[n]): answered_by[n] for n in numbers}
        graph = planned_graph(loaded.graph, answered_by[numbers[0]])
        in_bits |= graph.base is not None
        probes = [partial(compile_plan, graph, plan, loaded.cluster) for plan in plans.values()]
        given, got = ([many[n] for n in numbers] for many in (feeds, answers))
        worst.append(compare_answers(graph, given, got, [] if lossy else probes))
    passed = all(each.is_within(tolerance_of(loaded.graph)) for each in worst)
    shown = max(worst, key=lambda each: each.relative)
    return Checked(
        shown.max_difference,
        shown.max_magnitude,
        len(feeds),
        passed=passed,
        lossy=lossy,
        scale=None if lossy else shown.scale,
        non_finite=sum(each.non_finite for each in worst),
        in_bits=in_bits,
    )


def list_fallback(fallback: Plan | None, answered_by: Sequence[Plan]) -> list[int]:
    """The numbers of the answers that a fallback gave."""
    return [n for n, plan in enumerate(answered_by) if fallback is not None and plan == fallback]


def measure_snr(
    loaded: Loaded, feeds: Sequence[Feeds], answered_by: Sequence[Plan]
) -> float | None:
    """The dB of the outputs' power over what a fallback's bits change, of some of its answers.

    None where it gave no answers, or has no bits.
    """
    fallback = loaded.plan.fallback
    numbers = list_fallback(fallback, answered_by)[:_MEASURED]
    if fallback is None or not fallback.bits or not numbers:
        return None
    reference = Reference(loaded.graph.base or loaded.graph, [feeds[n] for n in numbers])
    return reference.signal_to_noise_db(fallback.bits)


def add_fallback(
    reply: Reply, fallback: Plan, answered_by: Sequence[Plan], snr_db: float | None
) -> None:
    """Mark the answers that a fallback gave, with what it was judged or measured at."""
    numbers = list_fallback(fallback, answered_by)
    reply.payload["fallback"] = {
        "answers": numbers,
        "accuracy": fallback.accuracy,
        "signal_to_noise_db": snr_db,
    }
    if not numbers:
        return
    words = [f"{len(numbers)} of {len(answered_by)} answers, from number {numbers[0]} on"]
    if fallback.accuracy is not None:
        words.append(f"accuracy {fallback.accuracy:.3g} when it was planned")
    if snr_db is not None:
        words.append(f"signal {snr_db:.1f} dB over what its bits change")
    reply.shown.append(f"Fallback:    {', '.join(words)}")
