"""What is said of a plan's fallback when it is planned."""

from __future__ import annotations

from partita.cli.output import Reply
from partita.cost import CostModel
from partita.plan import Plan
from partita.simulation import predict
from partita.units import format_bytes, format_seconds


def add_fallback_plan(reply: Reply, cost: CostModel, plan: Plan) -> None:
    """Say what goes on alone, how long that takes, what it holds and how accurate it is."""
    fallback = plan.fallback
    if fallback is None:
        return
    own = cost.of_plan(fallback)
    (device,) = {shard.device for stage in fallback.stages for shard in stage.shards}
    latency_s = predict(own, fallback).latencies_s[0]
    held_bytes = own.memory(own.layout(fallback))[device].total
    is_same = fallback.model.hash == plan.model.hash
    reply.payload["fallback"] = {
        "device": device,
        "same_answers": is_same,
        "latency_s": latency_s,
        "memory_bytes": held_bytes,
        "accuracy": fallback.accuracy,
    }
    what = "the same answers" if is_same else "8 bits on integer kernels"
    judged = "" if fallback.accuracy is None else f", accuracy {fallback.accuracy:.3g}"
    reply.shown.append(
        f"Fallback:    device '{device}' alone, {what}, {format_seconds(latency_s)},"
        f" {format_bytes(held_bytes)} beside the plan{judged}"
    )
    is_other = not (is_same or plan.integer_kernels)
    if is_other and latency_s < predict(cost.of_plan(plan), plan).latencies_s[0]:
        reply.shown.append(
            "             It is sooner than the plan, as that computes with floats: with"
            " --kernels integer what is planned may have such kernels, too."
        )
