"""From a cost model to a plan and how good it is."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf

import msgspec

from partita.cluster import Cluster
from partita.compile import check_plan
from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph
from partita.plan import MAX_IN_FLIGHT, Plan
from partita.planners.bounds.least_period import least_period_s
from partita.planners.bounds.lower_bound import lower_bound_s
from partita.planners.drafts.draft import DIVIDED, Draft
from partita.planners.fallback import find_with_fallback
from partita.planners.no_plan import check_possible, explain
from partita.planners.options import OBJECTIVES, Objective, PlanOptions, asked_of
from partita.planners.pricing.costs import Costs
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.objective import rate
from partita.planners.pricing.wire_formats import allow_formats, drop_needless, expect_again
from partita.planners.registry import Chosen, get_planner
from partita.planners.result import Estimate, Result, is_worth
from partita.planners.search.nearness import NEAR
from partita.planners.search.simplify import simplify
from partita.planners.settings import read_settings
from partita.planners.simple.single import single_drafts
from partita.regions import COMPRESSED, PICTURE_AXES, WIRE_FORMATS, is_plan_format, suits
from partita.simulation import Until

#: Latencies up to this share above the bound are the bound's: it is rounded down by half as much.
_AT_BOUND = 1 + 2e-7


def find_plan(
    cost: Costs,
    *,
    planner: str = "best",
    objective: Objective | None = None,
    options: PlanOptions | None = None,
) -> Result:
    """A plan, its predicted cost and how good it is.

    Args:
        planner: One of :func:`planner_names`.
        objective: Shorthand for the option of that name.

    Raises:
        PlanError: The planner, the objective, or a name in the options is unknown.
        OverfullError: No plan was found that fits in memory, though one may exist.
        UnfinishedError: The search ended before it found one.
        InfeasibleError: No plan satisfies the constraints.
    """
    began_s = time.monotonic()
    options = options or PlanOptions()
    if objective is not None:
        options = replace(options, objective=objective)
    if not cost.cluster.providers:
        raise InfeasibleError(
            f"Cluster '{cost.cluster.name}' has no device that computes: one has to be there.",
            subject=cost.cluster.name,
            is_proven=True,
        )
    with _uncollected():
        check_options(options, cost.graph, cost.cluster)
        if options.fallback:
            return find_with_fallback(
                cost, options, lambda less: _find(less, planner, options, began_s)
            )
        return _find(cost, planner, options, began_s)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no cycles until what a search remembers is gone again.

    A search makes millions of objects and no cycles that matter; to look through them would take
    seconds in which no other thread runs, a leader's among them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # All that is left counts as old: to look through it now takes a second after a long
            # search.
            gc.freeze()
            gc.enable()
            gc.unfreeze()


def check_options(options: PlanOptions, graph: Graph, cluster: Cluster) -> None:
    """Raise where options say what no planner can heed.

    Raises:
        PlanError: A number is out of range, or a name is unknown.
        ClusterError: The cluster has no device of a name.
    """
    if options.objective not in OBJECTIVES:
        allowed = ", ".join(OBJECTIVES)
        raise PlanError(
            f"Objective '{options.objective}' is unknown; allowed: {allowed}.",
            subject=options.objective,
        )
    if not 1 <= options.in_flight <= MAX_IN_FLIGHT:
        raise PlanError(
            f"Requests in flight: {options.in_flight}, must be from 1 to {MAX_IN_FLIGHT}."
        )
    if options.max_evaluations is not None and options.max_evaluations < 1:
        raise PlanError(f"Plans to price: {options.max_evaluations}, must be at least 1.")
    if not 0 <= options.accuracy_drop < 1:
        raise PlanError(
            f"Accuracy drop: {options.accuracy_drop:g}, must be from 0 to below 1, a part of the"
            " network's accuracy."
        )
    if options.swap and all(one.swap_bytes_per_s is None for one in cluster.devices):
        raise PlanError(
            "Devices may swap, but none can: give one a rate in the cluster file, such as"
            ' swap = "10 MB/s", or plan without.'
        )
    for axis in options.axes or ():
        if axis not in DIVIDED:
            allowed = ", ".join(DIVIDED)
            raise PlanError(f"Axis '{axis}' is unknown; allowed: {allowed}.", subject=axis)
    for name in ("keep_on", "wires", "energy_limits", "method"):
        if not isinstance(getattr(options, name), Mapping):
            kind = type(getattr(options, name)).__name__
            raise PlanError(f"Option '{name}' is a {kind}, allowed: a mapping.", subject=name)
    for name in options.named_devices:
        cluster.device(name)
    _check_wires(options, graph)
    for name, joules in options.energy_limits.items():
        if not joules > 0:
            raise PlanError(
                f"Energy limit of '{name}' is {joules:g} J, must be above 0 J.", subject=name
            )
    for name in dict.fromkeys(key.partition(".")[0] for key in options.method):
        read_settings(get_planner(name).settings, name, options.method)


def _check_wires(options: PlanOptions, graph: Graph) -> None:
    for tensor in options.wires:
        if tensor not in graph.tensors:
            raise PlanError(
                f"Option 'wires' names tensor '{tensor}', which model '{graph.name}' does not have."
                f" Its inputs are {', '.join(graph.inputs)}; 'partita inspect' lists the others.",
                subject=tensor,
            )
    for wire in (*options.wires.values(), *filter(None, [options.compress])):
        if not is_plan_format(wire):
            raise PlanError(
                f"Wire format '{wire}' is unknown; allowed: {', '.join(WIRE_FORMATS)}.",
                subject=wire,
            )
    for tensor, wire in options.wires.items():
        if not suits(wire, graph.tensors[tensor].shape):
            raise PlanError(
                f"Option 'wires' sends tensor '{tensor}' of shape {graph.tensors[tensor].shape} as"
                f" {wire}, allowed: {PICTURE_AXES}.",
                subject=tensor,
            )
    if options.compress is not None and not any(
        suits(options.compress, spec.shape) for spec in graph.tensors.values()
    ):
        raise PlanError(
            f"Format '{options.compress}' suits no tensor of model '{graph.name}', allowed:"
            f" {PICTURE_AXES}.",
            subject=options.compress,
        )
    if options.compress in COMPRESSED and options.payloads is None:
        raise PlanError(
            f"Format '{options.compress}' needs samples, which say how long its payloads are: give"
            " --samples; in a program PlanOptions has a field 'payloads'.",
            subject=options.compress,
        )


def _find(cost: Costs, name: str, options: PlanOptions, began_s: float) -> Result:
    """The planner's plan; of formats that may be used, the better of its plans with and without.

    A search prices what travels in a format as in that format throughout, and a cut may be best
    where it gains nothing: each search has half of the time.
    """
    if options.compress is None:
        return _noted(_find_one(cost, name, options, began_s))
    half = replace(
        options,
        budget_s=None if options.budget_s is None else options.budget_s / 2,
        most_s=options.most_s / 2,
    )
    found: list[Result] = []
    refusals: list[InfeasibleError] = []
    for way in (half, replace(half, compress=None)):
        try:
            found.append(_find_one(cost, name, way, began_s))
        except InfeasibleError as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    return _noted(_best_of(found, options, cost.cluster))


def _best_of(found: Sequence[Result], options: PlanOptions, cluster: Cluster) -> Result:
    """The best result of several searches for the same, as the result of them all."""
    score = partial(rate, objective=options.objective, cluster=cluster)
    best = min(found, key=lambda one: score(one.estimate))
    single = min((one.single for one in found if one.single), key=score, default=None)
    periods = [one.least_period_s for one in found if one.least_period_s is not None]
    proven = all(one.status == "optimal" for one in found)
    alone = score(single)[0] if single else inf
    return replace(
        best,
        plan=msgspec.structs.replace(best.plan, options=asked_of(options)),
        status="heuristic" if best.status == "optimal" and not proven else best.status,
        lower_bound_s=min(one.lower_bound_s for one in found),
        least_period_s=min(periods, default=None),
        single=single,
        best_single_s=min(one.best_single_s for one in found),
        worth_splitting=is_worth(alone, score(best.estimate)[0]),
        search_s=max(one.search_s for one in found),
        evaluations=sum(one.evaluations for one in found),
    )


def _find_one(cost: Costs, name: str, options: PlanOptions, began_s: float) -> Result:
    evaluator = Evaluator(cost, allow_formats(cost.graph, options))
    try:
        return _find_by(evaluator, name, options, began_s)
    finally:  # a leader searches again and again, and its garbage is collected seldom
        evaluator.close()


def _find_by(evaluator: Evaluator, name: str, options: PlanOptions, began_s: float) -> Result:
    method = get_planner(name)
    check_possible(evaluator, method)
    try:
        chosen = method.choose(evaluator)
    except InfeasibleError as error:
        raise explain(evaluator, method, error) from None
    if evaluator.budget.was_cut and chosen.status == "heuristic":
        chosen = replace(chosen, status="cut short")
    gain = evaluator.budget.last_half_gain()
    exact, evaluator = evaluator, evaluator.quantised(chosen.bits)
    if options.simple and chosen.draft:
        draft = simplify(evaluator, chosen.draft)
        chosen = replace(chosen, draft=draft, status="heuristic", note="")
    plan = _plan(evaluator, chosen, name, options)
    if options.compress is not None:
        if chosen.bits:
            plan = expect_again(evaluator, plan, options)
        plan = drop_needless(evaluator, plan, options)
    known_s = exact.judged_s(chosen.draft) if evaluator is exact else inf
    estimate = evaluator.evaluate(plan, until=_until(exact, known_s))
    plan = msgspec.structs.replace(plan, in_flight=estimate.in_flight)
    bound_s = lower_bound_s(evaluator)
    singles = list(single_drafts(exact))
    single = _estimate_single(exact, min(singles, key=exact.judge))
    least_s = least_period_s(evaluator, bound_s) if options.objective == "throughput" else None
    ours, alone = evaluator.rate(estimate)[0], evaluator.rate(single)[0] if single else inf
    result = Result(
        plan=plan,
        estimate=estimate,
        lower_bound_s=bound_s,
        status=chosen.status,
        search_s=time.monotonic() - began_s,
        worth_splitting=is_worth(alone, ours),
        best_single_s=min(exact.latency_of(draft) for draft in singles),
        single=single,
        note="; ".join(filter(None, (chosen.note, _fewer(plan, options)))),
        last_half_gain=gain if method.cost == "search" else None,
        evaluations=evaluator.budget.evaluations,
        least_period_s=least_s,
        trade_offs=chosen.trade_offs,
        advice=chosen.advice,
    )
    return replace(result, status="optimal") if _is_within(_AT_BOUND, result) else result


def _fewer(plan: Plan, options: PlanOptions) -> str:
    """What to say where a plan has fewer requests in flight than it may; else nothing."""
    if plan.in_flight == options.in_flight:
        return ""
    return f"memory has room for {plan.in_flight} of {options.in_flight} requests in flight"


def _is_within(factor: float, result: Result) -> bool:
    """Whether a plan takes at most so many times its bound, if there is one for what is wanted."""
    if result.least_period_s is not None:
        return result.estimate.period_s <= result.least_period_s * factor
    is_latency = result.plan.objective == "latency"
    return is_latency and result.latency_s <= result.lower_bound_s * factor


def _noted(result: Result) -> Result:
    """The result of a search with a note where its plan is at the bound, which ends searches."""
    is_search = get_planner(result.plan.planner).cost == "search"
    if not is_search or result.status == "optimal" or not _is_within(NEAR, result):
        return result
    return replace(result, note="; ".join(filter(None, ("at the bound", result.note))))


def _plan(evaluator: Evaluator, chosen: Chosen, name: str, asked: PlanOptions) -> Plan:
    """What a planner chose as a plan that knows what was asked.

    Raises:
        PlanError: The planner's own stages break a rule.
    """
    problem = evaluator.problem
    plan = problem.plan(chosen.draft, planner=name)
    plan = msgspec.structs.replace(
        plan,
        stages=chosen.stages or plan.stages,
        wires={**plan.wires, **chosen.wires},
        options=asked_of(asked),
    )
    if chosen.stages:
        check_plan(problem.graph, plan, problem.cluster)
    return plan


def _estimate_single(evaluator: Evaluator, draft: Draft) -> Estimate | None:
    """What one device alone costs; None where it cannot hold the network."""
    try:
        plan, known_s = evaluator.problem.plan(draft), evaluator.judged_s(draft)
        return evaluator.evaluate(plan, until=_until(evaluator, known_s))
    except PlanError:
        return None


def _until(evaluator: Evaluator, known_s: float) -> Until:
    """How long the price in full is simulated: no longer than a budget lets it, if known before."""
    return Until(is_enough=lambda: evaluator.budget.is_used_up, known_s=known_s)
