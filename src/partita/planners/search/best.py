"""The planner to use: a sweep over cut positions, then local search on the exact cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from partita.errors import PlanError
from partita.planners.drafts.draft import Draft, DraftStage, is_allowed
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, PlannerCost, get_planner, planner_names, register
from partita.planners.result import Status
from partita.planners.search.beam_search import BeamSearch, shape_of
from partita.planners.search.exhaustive import Space
from partita.planners.search.local_search import LocalSearch
from partita.planners.search.moves import Moves, prune
from partita.planners.search.stage_ends import StageEnds
from partita.planners.simple.rows import device_speeds, divide_rows
from partita.planners.simple.single import single_drafts

#: Planners of these costs run for every network; others only where their space is this small.
ALWAYS: tuple[PlannerCost, ...] = ("cheap",)
SMALL_SPACE = 3000
#: Part of the time budget after which no more starts are made; the search is cut short then.
STARTS_SHARE = 0.8
#: Part of the evaluations that the sweep may take, and how many of its drafts are starts.
SWEEP_SHARE, MOST_SWEPT = 0.2, 60
#: Starts whose rows are moved, and the part of the evaluations that each round may take.
RACERS, ROUND_SHARE = 20, 0.12
#: Part of the evaluations that first climbs may take.
CLIMB_SHARE = 0.4
#: Starts that local search climbs from with all moves.
MOST_STARTS = 2
#: Drafts that are perturbed in the end.
MOST_ELITE = 4


@register("best", cost="search")
def plan_best(evaluator: Evaluator) -> Chosen:
    """The plan to use: swept from the first layer to the last, then improved on the exact cost.

    Raises:
        InfeasibleError: No plan is possible.
    """
    axes = evaluator.options.axes
    is_small = Space(evaluator).count(SMALL_SPACE) <= SMALL_SPACE
    if is_small and axes is None:
        found = get_planner("exhaustive").choose(evaluator)
        return Chosen(evaluator.best([found.draft, *_others(evaluator)]), "optimal")
    starts = list(dict.fromkeys(draft for draft in _starts(evaluator) if is_allowed(draft, axes)))
    starts = sorted([*starts, *_swept(evaluator)], key=evaluator.score)
    moves = Moves(evaluator.outline, evaluator.devices, device_speeds(evaluator), axes)
    climber = LocalSearch(evaluator, moves)
    raced = _race(climber, evaluator, _different(starts)[:RACERS])
    climbed = []
    for number, draft in enumerate(raced[:MOST_STARTS]):
        climber.start(draft)
        climber.climb(CLIMB_SHARE / (MOST_STARTS - CLIMB_SHARE * number))
        climbed.append(climber.draft)
    best = evaluator.best([*climbed, *starts])
    climber.wander([best, *(draft for draft in [*climbed, *raced[MOST_STARTS:]] if draft != best)])
    best = evaluator.best([prune(climber.draft), best])
    status: Status = "cut short" if evaluator.budget.was_cut else "heuristic"
    return Chosen(best, status)


def _race(climber: LocalSearch, evaluator: Evaluator, racers: Sequence[Draft]) -> list[Draft]:
    """Return starts with rows moved, the best first; the better half goes on each time."""
    while True:
        most = int(ROUND_SHARE * evaluator.budget.most_evaluations / max(1, len(racers)))
        raced = []
        for draft in racers:
            climber.start(draft)
            climber.race(most)
            raced.append(climber.draft)
        raced.sort(key=evaluator.score)
        if len(raced) <= MOST_ELITE:
            return raced
        racers = raced[: max(MOST_ELITE, len(raced) // 2)]


def _different(starts: Sequence[Draft]) -> list[Draft]:
    """Return the first draft of each way to cut the network and to divide its stages."""
    first: dict[object, Draft] = {}
    for draft in starts:
        rows = tuple(one for one in shape_of(draft) if one[2] in ("rows", "tiles"))
        first.setdefault((rows, any(one not in rows for one in shape_of(draft))), draft)
    return list(first.values())


def _others(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield what the registered planners of low cost choose; some may find nothing."""
    for name in planner_names():
        method = get_planner(name)
        if method.cost in ALWAYS and not evaluator.budget.is_late(STARTS_SHARE):
            try:
                yield method.choose(evaluator).draft
            except PlanError:
                continue


def _starts(evaluator: Evaluator) -> Iterator[Draft]:
    yield from single_drafts(evaluator)
    with suppress(PlanError):
        yield divide_rows(evaluator, device_speeds(evaluator))
    if evaluator.options.objective == "throughput":
        yield from _replicas(evaluator)
    yield from _volumes(evaluator)
    yield from _others(evaluator)


def _replicas(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield the whole network on several devices that take requests by turns."""
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    ranked = sorted(evaluator.devices, key=lambda device: -speeds[device])
    if evaluator.outline.pins or evaluator.options.in_flight < 2:
        return
    for count in range(2, len(ranked) + 1):
        yield (DraftStage(0, len(evaluator.outline), "replica", tuple(ranked[:count])),)


def _swept(evaluator: Evaluator) -> list[Draft]:
    """Return the best drafts of a sweep over the layers, where drafts are priced quickly."""
    if evaluator.pricer is None or evaluator.options.objective != "latency":
        return []
    drafts = BeamSearch(evaluator, evaluator.pricer, evaluator.options.axes).run(SWEEP_SHARE)
    return _different(drafts)[: min(MOST_SWEPT, evaluator.budget.most_evaluations // 20)]


def _volumes(evaluator: Evaluator) -> Iterator[Draft]:
    """Yield divisions whose stages end where dynamic programming says, for several crews."""
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    ranked = sorted(evaluator.devices, key=lambda device: -speeds[device])
    counts = sorted({len(ranked), 3, 2} & set(range(2, len(ranked) + 1)), reverse=True)
    for count in counts:
        if count < counts[0] and evaluator.budget.is_late(STARTS_SHARE):
            break
        devices = tuple(d for d in evaluator.devices if d in ranked[:count])
        volumes = StageEnds(evaluator, devices, [speeds[d] for d in devices])
        for home in dict.fromkeys((ranked[0], evaluator.requester)):
            if home in evaluator.devices and not evaluator.budget.is_late(STARTS_SHARE):
                draft = volumes.draft(home)
                if draft:
                    yield draft
