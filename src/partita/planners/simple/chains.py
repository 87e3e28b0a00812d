"""The network as chains of layers: what planners of parallel branches choose devices for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from partita.graph import Graph, Layer
from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator


@dataclass(frozen=True)
class Task:
    """A chain of layers.

    Attributes:
        reads: Tensors from elsewhere, with the number of the task that makes each; -1 for inputs.
        answers: Its outputs that are the network's.
    """

    start: int
    stop: int
    reads: Mapping[str, int]
    answers: tuple[str, ...]


class Tasks:
    """The network as chains of layers.

    Attributes:
        are_parallel: Whether two of them can run at the same time.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        outline, graph = evaluator.outline, evaluator.graph
        spans = list(pairwise(_borders(evaluator)))
        makers = {
            tensor: number
            for number, (start, stop) in enumerate(spans)
            for tensor in outline.outputs(start, stop)
        }
        self.all: list[Task] = []
        for start, stop in spans:
            inputs = evaluator.ranges.works.work(start, stop).inputs
            made = outline.outputs(start, stop)
            reads = {tensor: makers.get(tensor, -1) for tensor, _ in inputs}
            answers = tuple(tensor for tensor in made if tensor in graph.outputs)
            self.all.append(Task(start, stop, reads, answers))
        self.readers: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for number, task in enumerate(self.all):
            for tensor, maker in task.reads.items():
                self.readers[maker][number].append(tensor)
        self.are_parallel = any(
            number and number - 1 not in task.reads.values() for number, task in enumerate(self.all)
        )

    def work_s(self, task: Task, device: str) -> float:
        """The seconds of a task; infinite where a layer must be elsewhere."""
        pins = self.evaluator.outline.pins
        if any(pins.get(place, device) != device for place in range(task.start, task.stop)):
            return inf
        return self.evaluator.ranges.work_s(task.start, task.stop, device)

    def send_s(self, tensor: str, source: str, target: str) -> float:
        """The seconds of moving a tensor."""
        problem = self.evaluator.problem
        if source != target and tensor in problem.options.keep_on:
            return inf
        return problem.cost.transfer_s(source, target, problem.wire_bytes(tensor))

    def alone_s(self, device: str) -> float:
        """The seconds of the whole network on a device, inputs and answer moved."""
        ranges, home = self.evaluator.ranges, self.evaluator.requester
        count = len(self.evaluator.outline)
        moves_s = ranges.move_s(0, home, device) + ranges.move_s(count, device, home)
        return moves_s + ranges.work_s(0, count, device)

    def draft(self, places: Sequence[str]) -> Draft:
        """Tasks on devices as stages, cut where a message goes or comes."""
        stages: list[DraftStage] = []
        for number, (task, device) in enumerate(zip(self.all, places, strict=True)):
            last = stages[-1] if stages else None
            if last and last.devices == (device,) and not self._is_cut(number, places):
                stages[-1] = DraftStage(last.start, task.stop, "none", (device,))
            else:
                stages.append(DraftStage(task.start, task.stop, "none", (device,)))
        return tuple(stages)

    def _is_cut(self, number: int, places: Sequence[str]) -> bool:
        """Whether a message comes to a task, or one goes from the task before."""
        home, here = self.evaluator.requester, places[number]
        comes = any(
            (places[maker] if maker >= 0 else home) != here
            for maker in self.all[number].reads.values()
        )
        goes = any(places[reader] != here for reader in self.readers[number - 1])
        return comes or goes or bool(self.all[number - 1].answers and here != home)


def _borders(evaluator: Evaluator) -> list[int]:
    """Where chains begin, and the end: at layers that do not follow from the one before alone.

    Also at what only makes its input larger, as padding does: it is for who reads that.
    """
    outline, graph = evaluator.outline, evaluator.graph
    borders = [0]
    for place in range(1, len(outline)):
        before, layer = (graph.layer(outline.order[p]) for p in (place - 1, place))
        readers = {one.name for tensor in before.outputs for one in graph.readers(tensor)}
        is_chain = set(layer.inputs) <= set(before.outputs) and readers == {layer.name}
        is_chain &= not _enlarges(graph, layer) or _enlarges(graph, before)
        if not is_chain or outline.pins.get(place) != outline.pins.get(place - 1):
            borders.append(place)
    return [*borders, len(outline)]


def _enlarges(graph: Graph, layer: Layer) -> bool:
    """Whether a layer makes more bytes than it reads without a multiplication."""
    return not layer.macs and layer.output_bytes > sum(map(graph.size_bytes, layer.inputs))
