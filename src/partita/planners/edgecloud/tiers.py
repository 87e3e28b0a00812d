"""AUTO-SPLIT on the way to the cloud: device, gateway and cloud, rows among them, and the widths.

Widths are found for a chain of three: the soonest cuts and widths for each bound on the sum of
errors. The first that is accurate enough and sooner than AUTO-SPLIT's own two parts then quantises
the network, which ``best`` divides among all devices at the exact price: by ranges, rows, whatever
gains. So no plan is later than that of ``autosplit``, or than the exact one of ``best``.

Source: the widths' problem is that of Banitalebi-Dehkordi et al., "AUTO-SPLIT: a general framework
of collaborative edge-cloud AI" (2021), which knows no gateways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from partita.errors import InfeasibleError, PlanError
from partita.planners.drafts.draft import whole_stages
from partita.planners.edgecloud.acceptance import Acceptance
from partita.planners.edgecloud.autosplit import AUTOSPLIT, AutosplitSettings, choose_split
from partita.planners.edgecloud.quantised_split import EdgeBits, make_problem, tiered_draft
from partita.planners.edgecloud.roles import Roles, find_roles
from partita.planners.edgecloud.tier_problem import find_gateways, tier_problems
from partita.planners.edgecloud.trade_offs import list_soonest, pareto
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, get_planner, register
from partita.planners.result import TradeOff
from partita.planners.settings import read_settings
from partita.quantisation import QuantisationData

#: Gateways that are tried, the fastest first. Not tuned.
_MOST_GATEWAYS = 3
#: Parts of the time left that are for `best` of the network as it is, then for two parts, then for
#: three; dividing the network in the widths found has the rest. Not tuned.
_EXACT_SHARE, _SPLIT_SHARE, _TIERED_SHARE = 0.25, 0.5, 0.6
#: Of two parts, where there is no gateway.
_ALONE_SHARE = 0.8


@dataclass(frozen=True)
class TierSettings:
    """Who is between; all else is as for ``autosplit``, by that method's settings.

    Attributes:
        gateway: Name of the only gateway; None for any device that may be one.
    """

    gateway: str | None = None


TIERS = TierSettings()


@register("tiers", cost="search", settings=TIERS, quantises=True)
def plan_tiers(evaluator: Evaluator) -> Chosen:
    """Ranges and rows on device, gateway and cloud, and their widths; without samples, `best`.

    Raises:
        PlanError: Nothing says what accuracy is enough, or the judge fails.
        InfeasibleError: The network as it is has no plan, and nothing narrower is accurate enough.
    """
    gateway = read_settings(TIERS, "tiers", evaluator.options.method).gateway
    settings = read_settings(AUTOSPLIT, "autosplit", evaluator.options.method)
    roles = find_roles(evaluator, settings.cloud)
    data, divide = evaluator.options.quantisation, get_planner("best").choose
    budget = evaluator.budget
    if data is None or roles.edge != evaluator.requester:
        return divide(evaluator)
    found, failure = list[Chosen](), None
    names = find_gateways(evaluator, roles, gateway)[:_MOST_GATEWAYS]
    split = partial(choose_split, is_over=lambda: budget.is_over)
    ways = ((_EXACT_SHARE, divide), (_SPLIT_SHARE if names else _ALONE_SHARE, split))
    for share, choose in ways:
        try:
            with budget.within(share):
                found.append(choose(evaluator))
        except InfeasibleError as error:
            failure = failure or error
    seen = [one for chosen in found for one in chosen.trade_offs]
    with budget.within(_TIERED_SHARE):
        most_s = min((_latency_s(evaluator, one) for one in found), default=inf)
        if names and not budget.is_over:
            tiered = _Tiered(evaluator, settings, roles, data)
            found += [one for name in names for one in tiered.accurate(name, most_s)]
            seen += tiered.seen
    found += _divide_again(evaluator, found)
    if not found and failure is not None:
        raise failure
    best = min(found, key=lambda one: _latency_s(evaluator, one))
    latency_s = _latency_s(evaluator, best)
    marked = (
        replace(one, is_chosen=True, latency_s=latency_s)
        if best.bits and one.bits == best.bits
        else replace(one, is_chosen=False)
        for one in seen
    )
    status = "cut short" if budget.was_cut else best.status
    notes = () if best.bits else dict.fromkeys(one.note for one in (best, *found) if one.note)
    note = "; ".join(notes)
    return replace(best, status=status, trade_offs=_falling(marked), advice=(), note=note)


def _divide_again(evaluator: Evaluator, found: Sequence[Chosen]) -> Iterator[Chosen]:
    """Yield what `best` makes of the networks that were quantised, each in its part of the time."""
    budget, quantised = evaluator.budget, [one for one in found if one.bits]
    for count in range(len(quantised), 0, -1):
        one = quantised[-count]
        if not budget.is_over:
            with suppress(PlanError), budget.within(1 / count):
                draft = get_planner("best").choose(evaluator.quantised(one.bits)).draft
                yield replace(one, draft=draft)


class _Tiered:
    """Splits among three devices.

    Attributes:
        seen: Those that were judged.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        settings: AutosplitSettings,
        roles: Roles,
        data: QuantisationData,
    ) -> None:
        self.seen: list[TradeOff] = []
        self._evaluator, self._roles = evaluator, roles
        self._most_error = inf if settings.most_error is None else settings.most_error
        outline = evaluator.outline
        whole = whole_stages(outline, 0, len(outline), evaluator.requester)
        self._acceptance = Acceptance(
            evaluator.options,
            evaluator.problem.plan(whole, planner="tiers"),
            is_bounded=settings.most_error is not None,
        )
        self._bits = EdgeBits(evaluator.graph, data, settings.input_bits, has_floats=True)
        self._straight = make_problem(evaluator, roles, self._bits)
        self._layers = evaluator.outline.order

    def accurate(self, gateway: str, most_s: float) -> Iterator[Chosen]:
        """Yield the first split that is accurate enough of those sooner than ``most_s``."""
        for one, seen in self._tries(gateway, most_s):
            quantised = self._evaluator.quantised(one.bits)
            plan = quantised.problem.plan(one.draft, planner="tiers")
            with self._evaluator.budget.aside():
                accuracy = self._acceptance.measure(plan)
            self.seen.append(replace(seen, accuracy=accuracy))
            if self._acceptance.is_enough(accuracy):
                yield one
                return

    def _tries(self, gateway: str, most_s: float) -> Iterator[tuple[Chosen, TradeOff]]:
        """Yield splits that are sooner than ``most_s``, the soonest first, not judged yet."""
        evaluator, layers = self._evaluator, self._layers
        problems = list(tier_problems(evaluator, self._roles, gateway, self._bits, self._straight))
        budget = evaluator.budget
        listed = list_soonest(problems, self._most_error, lambda: budget.is_over)
        for candidate in pareto(listed):
            if budget.is_over:
                return
            split = candidate.split
            first, last = layers[: split.first], layers[: split.cut]
            parts = [(self._roles.edge, first), (gateway, last), (self._roles.cloud, layers)]
            bits = self._bits.table(layers, split)
            quantised, draft = tiered_draft(evaluator, parts, bits)
            latency_s = quantised.latency_of(draft)
            if latency_s < most_s:
                held = problems[0].memory_between(split, 0, split.first)
                edge_bytes = -(-held // 8)
                seen = TradeOff(
                    "edge" if split.first == len(layers) else "split",
                    latency_s,
                    candidate.error,
                    split.first,
                    edge_bytes,
                    bits,
                    leaves=self._bits.leaves(layers, split),
                )
                yield Chosen(draft, bits=bits), seen


def _latency_s(evaluator: Evaluator, chosen: Chosen) -> float:
    return evaluator.quantised(chosen.bits).latency_of(chosen.draft)


def _falling(seen: Iterable[TradeOff]) -> tuple[TradeOff, ...]:
    """Those that none before is as exact as, the soonest first, and the chosen one, once."""
    kept: list[TradeOff] = []
    for one in sorted(seen, key=lambda one: (one.latency_s, one.error)):
        is_new = not any(other.is_chosen for other in kept)
        if not kept or one.error < kept[-1].error or (one.is_chosen and is_new):
            kept.append(one)
    return tuple(kept)
