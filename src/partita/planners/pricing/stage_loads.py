"""Seconds that devices compute for single stages: what no draft with them can be faster than."""

from __future__ import annotations

from partita.compile import FragmentWork
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.problem import Problem


class StageLoads:
    """Loads of stages, remembered; sums over rows, and merges, count as nothing."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[DraftStage, tuple[tuple[str, float], ...]] = {}

    def of(self, stage: DraftStage) -> tuple[tuple[str, float], ...]:
        """The seconds that each device computes for a stage."""
        known = self._known.get(stage)
        if known is None:
            known = self._known[stage] = self._find(stage)
        return known

    def busiest_s(self, draft: Draft) -> float:
        """The busiest device's seconds of computing: a draft's latency is not below."""
        busy = dict.fromkeys(self._problem.devices, 0.0)
        for stage in draft:
            for device, seconds in self.of(stage):
                busy[device] = busy.get(device, 0.0) + seconds
        return max(busy.values())

    def _find(self, stage: DraftStage) -> tuple[tuple[str, float], ...]:
        if stage.axis == "reduce":
            return ()
        outline = self._problem.outline
        if stage.axis == "input_channels":
            layer = outline.graph.layer(outline.order[stage.start])
            return tuple(
                (device, self._work_s(device, outline.works.partial(layer, box, "")))
                for device, box in self._problem.lowering.summands(stage, stage)
                if not box.is_empty
            )
        layers = outline.layers(stage.start, stage.stop)
        loads = []
        for number, device in enumerate(stage.devices):
            for boxes in self._problem.lowering.parts(stage, number):
                if not all(box.is_empty for box in boxes.values()):
                    loads.append((device, self._work_s(device, outline.works.stage(layers, boxes))))
        return tuple(loads)

    def _work_s(self, device: str, work: FragmentWork) -> float:
        """The seconds of a work, with what the device must bring in for it alone.

        For one request: a plan may have fewer under way than asked for, and then swaps less.
        """
        problem = self._problem
        seconds = problem.cost.work_s(device, work)
        if problem.may_swap(device):
            seconds += problem.swap_s(device, problem.cost.work_memory(work))
        return seconds
