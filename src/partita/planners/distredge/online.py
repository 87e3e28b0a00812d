"""DistrEdge in use: the actor splits by measured latencies, and learns on when links change.

As in the paper's highly dynamic networks (section V-F): each volume is split by what was measured
of the ones before, and when the average throughput has changed much the volumes are chosen anew and
the actor is fine-tuned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from partita.cluster import Cluster
from partita.errors import PlanError
from partita.execution import Report
from partita.plan import Plan
from partita.planners.distredge.actions import cut_rows
from partita.planners.distredge.agent import SplitAgent, one_thread
from partita.planners.distredge.environment import SplitEnvironment
from partita.planners.distredge.observation import Observer
from partita.planners.distredge.osds import Trained, Training
from partita.planners.distredge.places import Volume
from partita.planners.distredge.process import Cuts, SplitProcess, find_process
from partita.planners.distredge.settings import REPAIRED, DistrEdgeSettings
from partita.planners.distredge.starts import start_plans
from partita.planners.distredge.train import time_unit_s
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import Costs
from partita.planners.pricing.evaluator import Evaluator

#: Episodes of a fine-tuning; the paper says 20 to 210 s on a laptop. A quarter of a training's 600,
#: not tuned.
FINE_TUNE_EPISODES = 150
#: Throughput has changed when a link's mean differs by more than this share. Not tuned: less trains
#: more often, more keeps an actor for other rates.
CHANGED_SHARE = 0.25


class OnlineSplitter:
    """Keeps an actor for one network and the devices that run it.

    Args:
        cost: Network, devices and links as they are now.

    Raises:
        PlanError: There is one provider only, or no layer can be divided in rows.
    """

    def __init__(
        self,
        cost: Costs,
        options: PlanOptions | None = None,
        settings: DistrEdgeSettings = REPAIRED,
    ) -> None:
        self._options = options or PlanOptions()
        self.settings = settings
        self.process = self._make_process(cost)
        self.observer = Observer(self.process, time_unit_s(self.process))
        with one_thread():
            environment = SplitEnvironment(self.process, self.observer)
            self.agent = SplitAgent(environment, settings, self._options.seed)
            self.trained = self._train(settings)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """The volumes that are split now."""
        return self.process.volumes

    def decide(self, number: int, latencies_s: Sequence[float]) -> Cuts:
        """The cuts of one volume.

        Args:
            number: Of the volume, from 0.
            latencies_s: Per provider, accumulated seconds as measured up to the volume before.
        """
        observation = self.observer.observe(number, latencies_s)
        return cut_rows(self.agent.act(observation), self.process.heights[number])

    def plan(self, measured_s: Sequence[Sequence[float]] = ()) -> Plan:
        """The plan of the next request.

        Args:
            measured_s: Per volume, accumulated seconds per provider after it, as
                :func:`accumulated_latencies` finds them in the last request's report. Volumes
                beyond its end are split by what the cost model says.
        """
        decisions: list[Cuts] = []
        for number in range(len(self.volumes)):
            before: Sequence[float] = self.process.latencies(decisions)
            if 0 < number <= len(measured_s):
                before = measured_s[number - 1]
            decisions.append(self.decide(number, before))
        return self.process.evaluator.problem.plan(
            self.process.draft(decisions), planner="distredge"
        )

    def best_plan(self) -> Plan | None:
        """The best plan of the last training; None when it found none."""
        if self.trained.decisions is None:
            return None
        draft = self.process.draft(self.trained.decisions)
        return self.process.evaluator.problem.plan(draft, planner="distredge")

    def has_changed(self, cluster: Cluster, share: float = CHANGED_SHARE) -> bool:
        """Whether links carry more or less than before by more than ``share``."""
        before = self.process.evaluator.cluster
        for link in cluster.links:
            old = before.link(link.source, link.target)
            if old is None:
                return True
            ratio = link.bandwidth_bytes_per_s / old.bandwidth_bytes_per_s
            if not 1 - share <= ratio <= 1 / (1 - share):
                return True
        return False

    def fine_tune(self, cost: Costs, episodes: int = FINE_TUNE_EPISODES) -> Trained:
        """Choose the volumes anew for changed costs, and train the actor on from where it is.

        Args:
            cost: The same network and the same number of providers.
        """
        self.process = self._make_process(cost)
        self.observer = Observer(self.process, self.observer.time_unit_s)
        with one_thread():
            kept = self.agent.weights()
            environment = SplitEnvironment(self.process, self.observer)
            settings = replace(self.settings, episodes=episodes)
            self.agent = SplitAgent(environment, settings, self._options.seed)
            self.agent.restore(kept)
            self.trained = self._train(settings)
        return self.trained

    def _make_process(self, cost: Costs) -> SplitProcess:
        process = find_process(Evaluator(cost, self._options), self.settings)
        if process is None:
            raise PlanError("There is nothing to split: one provider, or no layers with rows.")
        return process

    def _train(self, settings: DistrEdgeSettings) -> Trained:
        environment = SplitEnvironment(self.process, self.observer)
        training = Training(environment, self.agent, settings, self._options.seed)
        return training.run(start_plans(self.process) if settings.warm else ())


def accumulated_latencies(
    report: Report, volumes: int, devices: Sequence[str]
) -> tuple[tuple[float, ...], ...]:
    """Per volume and provider when its part was computed in the last request of a report.

    Where a provider had no part of a volume, when it had finished the one before: what the split
    process calls accumulated latencies, measured.

    Args:
        report: With spans; of a plan that this package made.
        devices: The providers, in order.
    """
    last = max((span.request for span in report.spans), default=0)
    spans = [s for s in report.spans if s.request == last and s.lane == "compute"]
    began_s = min((s.start_s for s in report.spans if s.request == last), default=0.0)
    ends: dict[tuple[int, str], float] = {}
    stages = sorted({int(s.label.split()[0].partition("-")[2]) for s in spans if _is_rows(s.label)})
    for span in spans:
        if _is_rows(span.label):
            number = stages.index(int(span.label.split()[0].partition("-")[2]))
            ends[number, span.device] = span.end_s - began_s
    reached = dict.fromkeys(devices, 0.0)
    ends_s = []
    for number in range(volumes):
        reached = {device: ends.get((number, device), reached[device]) for device in devices}
        ends_s.append(tuple(reached[device] for device in devices))
    return tuple(ends_s)


def _is_rows(label: str) -> bool:
    """Whether a step's label (``stage-3 rows 1/4``) is of a part of a volume."""
    words = label.split()
    return len(words) == 3 and words[1] == "rows"
