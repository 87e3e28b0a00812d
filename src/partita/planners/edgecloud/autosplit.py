"""AUTO-SPLIT: where to cut between edge and cloud, and with how many bits the edge computes.

Source: Banitalebi-Dehkordi et al., "AUTO-SPLIT: a general framework of collaborative edge-cloud AI"
(2021). Algorithm 1 computes its budgets where the cut is not known yet, looks at no latency but in
the end, and knows no plan of the network as it is; the last of these its guarantee asks for (remark
5). ``as_printed`` leaves the latter two as they are.

Candidates are judged by the accuracy of the network that they quantise, the soonest first, or by a
bound on the sum of errors. What then is not sooner than the best exact plan gives way to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Literal

from partita.errors import PartitaError, PlanError
from partita.plan import Plan
from partita.planners.drafts.draft import Draft
from partita.planners.edgecloud.neurosurgeon import best_prefixes
from partita.planners.edgecloud.quantised_split import EdgeBits, make_problem, quantised_draft
from partita.planners.edgecloud.roles import Roles, RoleSettings, find_roles
from partita.planners.edgecloud.split_problem import Candidate
from partita.planners.edgecloud.trade_offs import list_candidates
from partita.planners.options import PlanOptions
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.result import TradeOff
from partita.planners.settings import read_settings
from partita.planners.simple.single import NOT_DIVIDED
from partita.quantisation import LayerBits, QuantisationData


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
    input_bits: int = 8


AUTOSPLIT = AutosplitSettings()


@register("autosplit", cost="published", settings=AUTOSPLIT)
def plan_autosplit(evaluator: Evaluator) -> Chosen:
    """The soonest cut and widths of accuracy enough; without samples no widths, the best cut.

    Raises:
        PlanError: Nothing says what accuracy is enough, or the judge fails.
    """
    settings = read_settings(AUTOSPLIT, "autosplit", evaluator.options.method)
    roles = find_roles(evaluator, settings.cloud)
    exact = evaluator.best(best_prefixes(evaluator, roles), advice=NOT_DIVIDED)
    data = evaluator.options.quantisation
    if data is None or roles.edge != evaluator.requester:
        return Chosen(exact)
    return _Search(evaluator, settings, roles, data).run(exact)


class _Search:
    """Candidates in order of latency until one is accurate enough."""

    def __init__(
        self,
        evaluator: Evaluator,
        settings: AutosplitSettings,
        roles: Roles,
        data: QuantisationData,
    ) -> None:
        self._evaluator, self._settings, self._roles = evaluator, settings, roles
        self._accepts = make_acceptance(evaluator.options, settings.most_error)
        self._bits = EdgeBits(
            evaluator.graph, data, settings.input_bits, has_floats=not settings.as_printed
        )
        self._problem = make_problem(evaluator, roles, self._bits)
        self.seen: list[TradeOff] = []

    def run(self, exact: Draft) -> Chosen:
        """The first candidate that is accurate enough, or the best exact plan if that is sooner."""
        exact_s = self._evaluator.latency_of(exact)
        reference = self._evaluator.problem.plan(exact, planner="autosplit")
        bound = self._settings.most_error
        found = Chosen(exact)
        for candidate in list_candidates(
            self._problem,
            exact=self._settings.allocation == "exact",
            as_printed=self._settings.as_printed,
            most_error=inf if bound is None else bound,
        ):
            bits = self._bits.table(self._problem.network.layers, candidate.split)
            if not bits or candidate.latency_s == inf:
                continue
            draft, latency_s = self._price(candidate, bits)
            if latency_s >= exact_s:
                continue
            plan = self._plan(draft, bits)
            is_enough, accuracy = self._accepts(plan, reference)
            self.seen.append(self._trade_off(candidate, latency_s, accuracy))
            if is_enough:
                found = Chosen(draft, bits=bits)
                break
        return replace(found, trade_offs=tuple(self.seen))

    def _price(self, candidate: Candidate, bits: dict[str, LayerBits]) -> tuple[Draft, float]:
        """A candidate's draft and latency; infinite where it is not possible."""
        edge = set(self._problem.network.layers[: candidate.split.cut])
        quantised, draft = quantised_draft(self._evaluator, self._roles, edge, bits)
        return draft, quantised.latency_of(draft)

    def _plan(self, draft: Draft, bits: dict[str, LayerBits]) -> Plan:
        return self._evaluator.quantised(bits).problem.plan(draft, planner="autosplit")

    def _trade_off(
        self, candidate: Candidate, latency_s: float, accuracy: float | None
    ) -> TradeOff:
        edge_bits = self._problem.memory_bits(candidate.split)
        return TradeOff(
            latency_s, candidate.error, candidate.split.cut, -(-edge_bits // 8), accuracy
        )


#: Whether a plan is accurate enough beside the exact one, and how accurate it is.
Accepts = Callable[[Plan, Plan], tuple[bool, float | None]]


def make_acceptance(options: PlanOptions, most_error: float | None) -> Accepts:
    """What says whether a plan is accurate enough."""
    judge = options.judge
    if judge is None:
        if most_error is None:
            raise PlanError(
                "Planner 'autosplit' was given samples, but nothing says what accuracy is enough:"
                " give a judge, or a bound by --set autosplit.most_error=NUMBER."
            )
        return lambda plan, reference: (True, None)
    known: list[float] = []

    def accepts(plan: Plan, reference: Plan) -> tuple[bool, float | None]:
        if not known:
            known.append(_judge(judge, reference))
        accuracy = _judge(judge, plan)
        return accuracy >= (1 - options.accuracy_drop) * known[0], accuracy

    return accepts


def _judge(judge: Callable[[Plan], float], plan: Plan) -> float:
    """The accuracy of a plan.

    Raises:
        PlanError: The judge fails, or answers no number.
    """
    try:
        accuracy = float(judge(plan))
    except PartitaError:
        raise
    except Exception as error:  # It is the user's own function.
        raise PlanError(f"The judge of plans failed: {type(error).__name__}: {error}.") from error
    if not isfinite(accuracy):
        raise PlanError(f"The judge of plans answered {accuracy}, allowed: a finite number.")
    return accuracy
