"""Controllers that plan while a network changes, for the adaptive simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partita.cost import CostModel
from partita.plan import Plan
from partita.planners import find_plan
from partita.planners.distredge.settings import REPAIRED
from partita.planners.settings import read_settings
from partita.reproduce.bench import Bench
from partita.reproduce.study import Case
from partita.simulation import predict
from partita.simulation.adaptive import Searched

if TYPE_CHECKING:
    from partita.planners.distredge.online import OnlineSplitter


@dataclass
class Controller:
    """Plans by a registered method, and writes down what each search took.

    Attributes:
        budget_s: Most seconds of a search that has a budget; the study's where None.
        taken_s: Seconds of one core, search by search.
    """

    bench: Bench
    case: Case
    budget_s: float | None = None
    taken_s: list[float] = field(default_factory=list)

    def search(self, cost: CostModel) -> Searched:
        """The method's plan for present rates."""
        options = self.bench.options(self.case, budget_s=self.budget_s)
        return self._timed(lambda: find_plan(cost, planner=self.case.planner, options=options).plan)

    def _timed(self, make: Callable[[], Plan]) -> Searched:
        began_s = time.process_time()
        plan = make()
        self.taken_s.append(time.process_time() - began_s)
        return Searched(plan, self.taken_s[-1])


@dataclass
class ActorController(Controller):
    """DistrEdge with its actor: trained once, fine-tuned where averages change.

    With ``steers`` each request is split by the actor itself, from the latencies that the last one
    met (section V-F of the paper); else by the best plan of the last training.
    """

    _splitter: OnlineSplitter | None = None
    _last: Plan | None = None
    _known: dict[tuple[float, ...], Plan] = field(default_factory=dict)

    def search(self, cost: CostModel) -> Searched:
        """Train or fine-tune for present rates, and return the best plan that this met."""
        return self._timed(lambda: self._train(cost))

    def _train(self, cost: CostModel) -> Plan:
        # Only here: PyTorch takes a second to load.
        from partita.planners.distredge.online import FINE_TUNE_EPISODES, OnlineSplitter

        options = self.bench.options(self.case)
        if self._splitter is None:
            settings = read_settings(REPAIRED, self.case.planner, options.method)
            self._splitter = OnlineSplitter(cost, options, settings)
        else:
            most = self._splitter.settings.episodes
            self._splitter.fine_tune(cost, min(most, FINE_TUNE_EPISODES))
        self._known.clear()
        self._last = self._splitter.best_plan() or self._splitter.plan()
        return self._last

    def steer(self, cost: CostModel) -> Plan:
        """The actor's plan for a request at present rates."""
        from partita.planners.distredge.online import accumulated_latencies

        rates = tuple(link.bandwidth_bytes_per_s for link in cost.links.values())
        if rates not in self._known and self._splitter is not None and self._last is not None:
            report = predict(cost, self._last, in_flight=1)
            process = self._splitter.process
            met = accumulated_latencies(report, len(process.volumes), process.devices)
            self._last = self._known[rates] = self._splitter.plan(met)
        return self._known[rates]
