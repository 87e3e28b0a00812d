"""The split process: one volume after the other is divided, and time passes on the devices.

What the paper models as a Markov decision process (section IV-C1), without a learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from partita.errors import PlanError
from partita.planners.distredge.lcpss import PartitionOptions, find_partition
from partita.planners.distredge.places import Volume
from partita.planners.distredge.settings import DistrEdgeSettings
from partita.planners.drafts.draft import Draft, DraftStage, whole_stages
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.incremental import IncrementalPricer
from partita.planners.pricing.pricing_state import PricingState

#: Where each device's part of one volume starts, and the end: rows of its highest output.
Cuts = tuple[int, ...]


class SplitProcess:
    """Drafts made volume by volume, and what they take.

    Layers without rows between two volumes (a mean over space and what follows it) belong to the
    later one and run on every device that has rows of it. What comes after the last volume runs on
    the device with the largest part of that.

    Args:
        volumes: In order; together all layers with rows. At least one.
    """

    def __init__(self, evaluator: Evaluator, volumes: Sequence[Volume]) -> None:
        self.evaluator = evaluator
        self.volumes = tuple(volumes)
        self.devices = evaluator.devices
        outline = evaluator.outline
        self.heights = tuple(outline.rows(volume.start, volume.stop) for volume in self.volumes)
        self._pricer = _pricer(evaluator)
        self._states: dict[tuple[Cuts, ...], PricingState | None] = {}

    def draft(self, decisions: Sequence[Cuts], *, whole: bool = True) -> Draft:
        """The draft of the first volumes, and of the rest when all are decided.

        Args:
            decisions: Cuts of the first volumes.
            whole: Whether layers after the last volume belong to it.
        """
        stages: list[DraftStage] = []
        reached = 0
        for volume, cuts in zip(self.volumes, decisions, strict=False):
            busy = tuple(d for d, rows in zip(self.devices, _sizes(cuts), strict=True) if rows)
            stages += self._between(reached, volume.start, busy)
            stages.append(DraftStage(volume.start, volume.stop, "rows", self.devices, cuts))
            reached = volume.stop
        if len(decisions) < len(self.volumes) or not whole:
            return tuple(stages)
        outline = self.evaluator.outline
        tail_device = self.tail_device(decisions[-1])
        return (*stages, *whole_stages(outline, reached, len(outline), tail_device))

    def tail_device(self, last: Cuts) -> str:
        """The device that runs the rest: that with most rows of the last volume."""
        sizes = _sizes(last)
        return self.devices[sizes.index(max(sizes))]

    def latencies(self, decisions: Sequence[Cuts]) -> tuple[float, ...]:
        """Per device when it has computed its parts of the volumes decided so far, seconds.

        Where it has none, when it had finished the one before. Exact where each device's steps run
        in the order of the volumes on links of their own; else as if they did, which concerns what
        a learner sees, never the latency of a whole plan.
        """
        state = self._state(tuple(decisions))
        if self._pricer is None or state is None:
            return self._rough(decisions)
        return tuple(self._pricer.free_s(state, device) for device in self.devices)

    def _state(self, decisions: tuple[Cuts, ...]) -> PricingState | None:
        """Where everything is after some volumes; None where that cannot be told."""
        if self._pricer is None:
            return None
        if not decisions:
            state = self._pricer.begin().copy()
            state.ordered = False
            return state
        if decisions not in self._states:
            if len(decisions) == 1:
                self._states.clear()
            before = self._state(decisions[:-1])
            self._states[decisions] = self._extend(self._pricer, before, decisions)
        return self._states[decisions]

    def _extend(
        self, pricer: IncrementalPricer, state: PricingState | None, decisions: tuple[Cuts, ...]
    ) -> PricingState | None:
        """The state after one more volume and what comes between."""
        draft = self.draft(decisions, whole=False)
        known = len(self.draft(decisions[:-1], whole=False))
        for stop in range(known + 1, len(draft) + 1):
            state = None if state is None else pricer.extend(state, draft[:stop])
        return state

    def latency_s(self, decisions: Sequence[Cuts]) -> float:
        """The seconds of one request, all volumes decided; infinite where impossible.

        By the cost model, as every planner's plans are priced; or measured, where the options say
        how.
        """
        draft = self.draft(decisions)
        predicted_s = self.evaluator.latency_of(draft)
        measure = self.evaluator.options.measure
        if measure is None or predicted_s == float("inf"):
            return predicted_s
        return measure(self.evaluator.problem.plan(draft, planner="distredge"))

    def explain(self, decisions: Sequence[Cuts]) -> PlanError | None:
        """Why a whole plan is impossible; None when it is not."""
        try:
            self.evaluator.estimate(self.draft(decisions))
        except PlanError as error:
            return error
        return None

    def _rough(self, decisions: Sequence[Cuts]) -> tuple[float, ...]:
        """Latencies as if each volume began when all devices have ended the one before."""
        if not decisions:
            return (0.0,) * len(self.devices)
        before = self.latencies(decisions[:-1])
        stage = self.draft(decisions, whole=False)[-1]
        start_s, ends_s = max(before), list(before)
        for number, device in enumerate(self.devices):
            boxes = self.evaluator.problem.lowering.boxes(stage, number)
            if not all(box.is_empty for box in boxes.values()):
                layers = self.evaluator.outline.layers(stage.start, stage.stop)
                work = self.evaluator.outline.works.stage(layers, boxes)
                ends_s[number] = start_s + self.evaluator.cost.work_s(device, work)
        return tuple(ends_s)

    def _between(self, start: int, stop: int, devices: tuple[str, ...]) -> Iterator[DraftStage]:
        outline = self.evaluator.outline
        position = start
        while position < stop:
            after = position + 1
            if position in outline.pins:
                yield from whole_stages(outline, position, after, outline.pins[position])
            elif outline.kinds[position] == "reduce":
                yield DraftStage(position, after, "reduce", devices)
            else:
                while after < stop and self._is_plain(after):
                    after += 1
                yield DraftStage(position, after, "everywhere", devices)
            position = after

    def _is_plain(self, position: int) -> bool:
        outline = self.evaluator.outline
        return position not in outline.pins and outline.kinds[position] != "reduce"


def find_process(evaluator: Evaluator, settings: DistrEdgeSettings) -> SplitProcess | None:
    """The split process of the volumes that LC-PSS chooses.

    None where there is nothing to decide: one provider, or no layer that can be divided in rows.
    """
    devices = len(evaluator.devices)
    options = PartitionOptions(
        devices=devices,
        alpha=settings.alpha,
        decisions=settings.decisions,
        scores=settings.scores,
        seed=settings.partition_seed,
    )
    volumes = find_partition(evaluator.outline, options).volumes
    return SplitProcess(evaluator, volumes) if volumes and devices > 1 else None


def _pricer(evaluator: Evaluator) -> IncrementalPricer | None:
    """What tells when devices are free; None where costs do not tell parts of messages."""
    cost = evaluator.cost
    if evaluator.pricer is None and isinstance(cost, StepCosts):
        return IncrementalPricer(cost, evaluator.problem.lowering, evaluator.options)
    return evaluator.pricer


def _sizes(cuts: Cuts) -> list[int]:
    return [after - before for before, after in pairwise(cuts)]
