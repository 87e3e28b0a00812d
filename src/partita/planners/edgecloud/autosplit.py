"""AUTO-SPLIT: where to cut between edge and cloud, and with how many bits the edge computes.

Source: Banitalebi-Dehkordi et al., "AUTO-SPLIT: a general framework of collaborative edge-cloud AI"
(2021). Algorithm 1 computes its budgets where the cut is not known yet, looks at no latency but in
the end, and knows no plan of the network as it is; the last of these its guarantee asks for (remark
5). ``as_printed`` leaves the latter two as they are.

Candidates are judged by the accuracy of the network that they quantise, the soonest first, or by a
bound on the sum of errors. What then is not sooner than the best exact plan gives way to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from typing import Literal

import msgspec

from partita.errors import InfeasibleError
from partita.plan import Plan
from partita.planners.drafts.draft import Draft
from partita.planners.edgecloud.acceptance import NONE_TRIED, Acceptance
from partita.planners.edgecloud.advice import explain_choice
from partita.planners.edgecloud.neurosurgeon import best_prefixes
from partita.planners.edgecloud.quantised_split import (
    EdgeBits,
    make_problem,
    quantised_draft,
)
from partita.planners.edgecloud.rivals import list_rivals, name_kind
from partita.planners.edgecloud.roles import Roles, RoleSettings, find_roles, split_draft
from partita.planners.edgecloud.trade_offs import list_candidates
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.result import TradeOff
from partita.planners.settings import read_settings
from partita.quantisation import QuantisationData
from partita.quantisation.bits import Width


@dataclass(frozen=True)
class AutosplitSettings(RoleSettings):
    """Who has which part, and how widths are found.

    Attributes:
        allocation: ``exact``: the best widths there are; ``lagrangian``: points of the convex hull.
        as_printed: Whether Algorithm 1 is followed as it is printed.
        most_error: Bound on the sum of mean squared errors, where no accuracy is judged.
        input_bits: Of each number of the network's inputs; 32 leaves them as they are.
    """

    allocation: Literal["exact", "lagrangian"] = "exact"
    as_printed: bool = False
    most_error: float | None = None
    input_bits: Literal[Width, 32] = 8


AUTOSPLIT = AutosplitSettings()
#: Part of the time left after which no more candidates are looked for: to price and to judge them
#: takes as long. Not tuned.
_LISTING_SHARE = 0.5


@register("autosplit", cost="published", settings=AUTOSPLIT, quantises=True)
def plan_autosplit(evaluator: Evaluator) -> Chosen:
    """The soonest cut and widths of accuracy enough; without samples no widths, the best cut.

    Raises:
        PlanError: Nothing says what accuracy is enough, or the judge fails.
        InfeasibleError: The network as it is has no plan, and no widths are accurate enough.
    """
    budget = evaluator.budget
    return choose_split(evaluator, lambda: budget.goes_on and budget.is_over)


def choose_split(evaluator: Evaluator, is_over: Callable[[], bool]) -> Chosen:
    """What ``autosplit`` finds until time is over.

    Args:
        is_over: Whether it is: then the best of what is known is the answer, the network as it is
            if nothing else was judged.

    Raises:
        PlanError: As :func:`plan_autosplit`.
    """
    settings = read_settings(AUTOSPLIT, "autosplit", evaluator.options.method)
    roles = find_roles(evaluator, settings.cloud)
    data = evaluator.options.quantisation
    exact, error = _find_exact(evaluator, roles)
    if data is None or roles.edge != evaluator.requester:
        found, whole = Chosen(exact), None
    elif exact and is_over():
        found, whole = Chosen(exact, "cut short", note=NONE_TRIED), None
    else:
        search = _Search(evaluator, settings, roles, data, is_over)
        found = search.run(exact)
        whole = search.acceptance.whole
    if error is not None and not found.draft:
        raise error
    rivals = [
        replace(rival, accuracy=whole, is_chosen=not (found.bits or number))
        for number, rival in enumerate(list_rivals(evaluator, roles, exact))
    ]
    found = replace(found, trade_offs=(*found.trade_offs, *rivals))
    return replace(found, advice=explain_choice(evaluator, roles, found.trade_offs))


def _find_exact(evaluator: Evaluator, roles: Roles) -> tuple[Draft, InfeasibleError | None]:
    """The best cut of the network as it is; or nothing, and why there is none."""
    try:
        return evaluator.best(best_prefixes(evaluator, roles)), None
    except InfeasibleError as error:
        return (), error


class _Search:
    """Candidates in order of latency until one is accurate enough.

    Attributes:
        acceptance: Judges them.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        settings: AutosplitSettings,
        roles: Roles,
        data: QuantisationData,
        is_over: Callable[[], bool],
    ) -> None:
        self._evaluator, self._settings, self._roles = evaluator, settings, roles
        self._is_over = is_over
        self._bits = EdgeBits(
            evaluator.graph, data, settings.input_bits, has_floats=not settings.as_printed
        )
        plan = evaluator.problem.plan(split_draft(evaluator, roles, ()))
        self.acceptance = Acceptance(
            evaluator.options,
            msgspec.structs.replace(plan, wires={}),
            is_bounded=settings.most_error is not None,
        )
        self._problem = make_problem(evaluator, roles, self._bits)

    def run(self, exact: Draft) -> Chosen:
        """The first candidate that is accurate enough, or the best exact plan if that is sooner.

        Args:
            exact: Empty where there is none; the answer's draft is then, too, if nothing is found.

        Raises:
            InfeasibleError: There is none, and what was judged is not accurate enough.
        """
        exact_s = self._evaluator.latency_of(exact) if exact else inf
        with self._evaluator.budget.within(_LISTING_SHARE):
            offers = self._list_offers()
        found = Chosen(exact)
        for place, draft, plan in self._soonest_first(offers):
            if offers[place].latency_s >= exact_s:
                continue
            if self._is_over() or (found.bits and not self._evaluator.options.judge_all):
                break
            with self._evaluator.budget.aside():
                accuracy = self.acceptance.measure(plan)
            is_chosen = not found.bits and self.acceptance.is_enough(accuracy)
            offers[place] = replace(offers[place], accuracy=accuracy, is_chosen=is_chosen)
            if is_chosen:
                found = Chosen(draft, bits=offers[place].bits)
        complaint = "" if found.bits else self.acceptance.complaint
        if self._is_over():
            found = replace(found, status="cut short")
            if not found.bits:
                complaint = f"in the time there was {complaint}" if complaint else NONE_TRIED
        if self.acceptance.complaint and not (found.bits or exact):
            raise self.acceptance.refuse()
        kept = sorted((o for o in offers if o.latency_s < exact_s), key=lambda o: o.latency_s)
        return replace(found, trade_offs=tuple(kept), note=complaint)

    def _soonest_first(self, offers: list[TradeOff]) -> Iterator[tuple[int, Draft, Plan]]:
        """Yield possible offers by the latency of their plans, which is written into the list.

        An offer is priced once none of those that are priced is sooner than what its sums say.
        """
        priced: list[tuple[float, int, Draft, Plan]] = []
        for place, offer in enumerate(offers):
            while priced and priced[0][0] <= offer.latency_s:
                yield heappop(priced)[1:]
            if self._is_over():
                break
            edge = set(self._problem.network.layers[: offer.edge_layers])
            quantised, draft = quantised_draft(self._evaluator, self._roles, edge, offer.bits)
            latency_s = quantised.latency_of(draft)
            offers[place] = replace(offer, latency_s=latency_s)
            if latency_s < inf:
                plan = quantised.problem.plan(draft, planner="autosplit")
                heappush(priced, (latency_s, place, draft, plan))
        while priced:
            yield heappop(priced)[1:]

    def _list_offers(self) -> list[TradeOff]:
        """Candidates that quantise something and are possible, the soonest first, by sums."""
        settings, problem = self._settings, self._problem
        layers = problem.network.layers
        offers = []
        for candidate in list_candidates(
            problem,
            exact=settings.allocation == "exact",
            as_printed=settings.as_printed,
            most_error=inf if settings.most_error is None else settings.most_error,
            is_over=self._is_over,
        ):
            split, bits = candidate.split, self._bits.table(layers, candidate.split)
            if bits and candidate.latency_s < inf:
                kind, size = name_kind(split.cut, len(layers)), problem.memory_bits(split)
                offers.append(
                    TradeOff(
                        *(kind, candidate.latency_s, candidate.error, split.cut, -(-size // 8)),
                        bits=bits,
                        leaves=self._bits.leaves(layers, split),
                    )
                )
        return offers
