"""The list of planners, and what each one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from partita.errors import PlanError
from partita.plan import Stage
from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.result import Status, TradeOff
from partita.regions import LayerBits

#: How planning time grows: ``cheap`` with the layers, ``search`` up to the budget, ``exponential``.
#: ``published`` methods are quick too, but there to be compared with: no search starts from them;
#: ``best`` asks them on few devices lest they have the better plan.
#: ``training`` takes the steps that its method gives, minutes perhaps, whatever the budget.
PlannerCost = Literal["cheap", "search", "exponential", "published", "training"]


@dataclass(frozen=True)
class Chosen:
    """A planner's answer before it is judged: a draft, or stages where no draft can say them.

    What else a planner decides becomes a further field with a default: ``find_plan`` alone reads
    them, and the plan carries them.

    Attributes:
        draft: The plan as ranges of layers; empty where there are stages.
        status: How good it is among what the planner may choose.
        stages: The plan's stages; empty where there is a draft.
        wires: Formats of tensors that the planner does not leave as asked for.
        note: Among which plans it is the best one, in a few words; empty where that says nothing.
        bits: With how many bits layers compute; a draft is then one of the quantised graph.
        trade_offs: What was chosen from, see :class:`partita.planners.result.Result`.
        advice: Why it was chosen, in sentences.
    """

    draft: Draft = ()
    status: Status = "heuristic"
    stages: tuple[Stage, ...] = ()
    wires: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    bits: Mapping[str, LayerBits] = field(default_factory=dict)
    trade_offs: tuple[TradeOff, ...] = ()
    advice: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an answer that says its stages twice."""
        if self.draft and self.stages:
            raise ValueError("a planner's answer is a draft or stages, not both")


#: What settings end in that say how many bits there are.
_BITS = "bits"
ChoosePlan = Callable[[Evaluator], Chosen]


@dataclass(frozen=True)
class Planner:
    """One registered method.

    Attributes:
        settings: A dataclass whose fields are what ``PlanOptions.method`` may change, with their
            defaults; None for a method without settings.
        quantises: Whether it may give layers fewer bits, where samples are given.
    """

    name: str
    cost: PlannerCost
    summary: str
    choose: ChoosePlan
    settings: object = None
    quantises: bool = False

    def chooses_bits(self, method: Mapping[str, str]) -> bool:
        """Whether it gives layers fewer bits: by itself, or since a setting says how many.

        Args:
            method: Settings by ``planner.setting``, as of the options of a plan.
        """
        if not self.quantises:
            return False
        known = [] if self.settings is None else fields(self.settings)  # type: ignore[arg-type]
        unset = [each.name for each in known if each.name.endswith(_BITS) and each.default is None]
        return not unset or any(f"{self.name}.{name}" in method for name in unset)


_PLANNERS: dict[str, Planner] = {}


def register(
    name: str, *, cost: PlannerCost, settings: object = None, quantises: bool = False
) -> Callable[[ChoosePlan], ChoosePlan]:
    """Add a planning function under a name; its first docstring line becomes its summary."""

    def add(choose: ChoosePlan) -> ChoosePlan:
        summary = (choose.__doc__ or "").partition("\n")[0]
        _PLANNERS[name] = Planner(name, cost, summary, choose, settings, quantises)
        return choose

    return add


def planner_names() -> tuple[str, ...]:
    """The names of all planners, quick ones first."""
    ranks: tuple[PlannerCost, ...] = ("cheap", "published", "exponential", "search", "training")
    return tuple(sorted(_PLANNERS, key=lambda name: ranks.index(_PLANNERS[name].cost)))


def get_planner(name: str) -> Planner:
    """The planner called ``name``.

    Raises:
        PlanError: There is none; the message lists those that exist.
    """
    planner = _PLANNERS.get(name)
    if planner is None:
        known = ", ".join(planner_names())
        raise PlanError(f"Planner '{name}' is unknown; allowed: {known}.", subject=name)
    return planner
