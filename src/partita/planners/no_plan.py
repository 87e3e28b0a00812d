"""What is said where there is no plan: the proof, or how near a search came and what helps."""

from __future__ import annotations

from collections.abc import Mapping

from partita.errors import InfeasibleError, OverfullError, PlanError, UnfinishedError, first_line
from partita.planners.bounds.least_memory import lacks_memory
from partita.planners.bounds.reach import lacks_links
from partita.planners.pricing.constraints import NOTHING_FOUND
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Planner
from partita.planners.search.memory_starts import fill_once
from partita.planners.simple.single import single_drafts
from partita.units import format_count, format_enough_bytes, format_seconds

#: Devices that a message names with what they lack.
_MOST_NAMED = 4
#: The planner that asks all others.
_ASKS_OTHERS = "best"


def check_possible(evaluator: Evaluator, planner: Planner) -> None:
    """Raise where sums prove that there is no plan, before anything is searched for.

    Of a planner that may give layers fewer bits nothing is known of what weights will take.

    Raises:
        InfeasibleError: There is none.
    """
    reason, overs = lacks_links(evaluator), list[Mapping[str, int]]()
    is_same = not (planner.quantises and evaluator.options.quantisation is not None)
    if not reason and is_same:
        reason = lacks_memory(evaluator, evaluator.options.axes)
        overs = _nearest_overflows(evaluator) if reason else overs
    if not reason:
        return
    nearest = ", or with ".join(_wanted(evaluator, over) for over in overs)
    raise InfeasibleError(
        f"No plan is possible: {reason}{f' Plans would fit with {nearest}.' if overs else ''}",
        subject=max(overs[0], key=overs[0].__getitem__) if overs else evaluator.requester,
        is_proven=True,
    )


def _wanted(evaluator: Evaluator, over: Mapping[str, int]) -> str:
    """The memory that devices would need which lack some, those that lack most first."""
    wanted = [
        f"{format_enough_bytes(evaluator.cluster.device(name).memory_bytes + size)} on '{name}'"
        for name, size in sorted(over.items(), key=lambda item: -item[1])
    ]
    more = f" and so on for {len(wanted) - _MOST_NAMED} more" if len(wanted) > _MOST_NAMED else ""
    return f"{', '.join(wanted[:_MOST_NAMED])}{more}"


def _nearest_overflows(evaluator: Evaluator) -> list[Mapping[str, int]]:
    """What the nearest of some plans lack, by device: in all, and on the device that lacks most."""
    overs: list[Mapping[str, int]] = []
    for draft in (*single_drafts(evaluator), *fill_once(evaluator)):
        try:
            evaluator.estimate(draft)
        except OverfullError as error:
            overs.append(error.overflow_bytes)
        except PlanError:
            continue
    if not overs:
        return []
    least = min(overs, key=lambda over: sum(over.values()))
    most_even = min(overs, key=lambda over: max(over.values()))
    return [least] if least == most_even else [least, most_even]


def explain(evaluator: Evaluator, planner: Planner, error: InfeasibleError) -> InfeasibleError:
    """The error of a planner that found nothing, with what helps.

    Where time ended the search that is the reason, not what it had come to until then.
    """
    budget = evaluator.budget
    if budget.was_cut:
        nearest = getattr(error, "nearest", "")
        nearest = nearest or first_line(error).removeprefix(f"{NOTHING_FOUND}: ")
        return UnfinishedError(
            f"{NOTHING_FOUND} in the time there was, {format_seconds(budget.given_s)}, with"
            f" {format_count(budget.evaluations, 'plan')} priced: {nearest}. That proves"
            " nothing: a longer search may find one (--budget SECONDS, in a program budget_s).",
            subject=error.subject,
        )
    if isinstance(error, OverfullError) and error.nearest:
        return OverfullError(
            f"{error.message} {_advice(evaluator, planner)}",
            overflow_bytes=error.overflow_bytes,
            nearest=error.nearest,
        )
    return error


def _advice(evaluator: Evaluator, planner: Planner) -> str:
    """What to do where a planner found nothing that fits: more devices may be no help to one."""
    if planner.name == _ASKS_OTHERS or len(evaluator.devices) == 1:
        return "Add devices, or raise memory in the cluster file."
    return f"Raise memory in the cluster file, or ask another planner, such as '{_ASKS_OTHERS}'."
