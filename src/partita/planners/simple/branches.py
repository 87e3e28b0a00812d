"""Parallel branches of the network on different devices, by list scheduling.

Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing" (2002): heterogeneous earliest finish time, here with links that carry one
message at a time. Tasks are chains of layers that nothing leaves or enters in between.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import fmean

from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.simple.rows import device_speeds
from partita.planners.simple.single import NOT_DIVIDED, single_drafts

#: Numbers of devices that are tried, the fastest first, and then all of them. Not tuned.
_CREWS = (2, 3, 4, 6, 8)
#: Schedules that are priced, those that end first. Not tuned.
_MOST_DRAFTS = 3


@register("branches", cost="cheap")
def plan_branches(evaluator: Evaluator) -> Chosen:
    """Chains of layers on devices such that parallel branches run at the same time."""
    drafts = [*single_drafts(evaluator), *branch_drafts(evaluator)]
    return Chosen(evaluator.best(drafts, advice=NOT_DIVIDED))


def branch_drafts(evaluator: Evaluator) -> list[Draft]:
    """Schedules on the fastest two, three... devices; none where the network has no branches."""
    tasks = Tasks(evaluator)
    if not tasks.are_parallel:
        return []
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    fastest = sorted(evaluator.devices, key=lambda device: -speeds[device])
    crews = [fastest[:count] for count in _CREWS if count < len(fastest)] + [fastest]
    home = evaluator.requester
    crews += [[home, *crew[:-1]] for crew in crews if home in fastest and home not in crew]
    schedules = []
    for crew in crews:
        if evaluator.budget.is_late(1.0):
            break
        schedules.append(Schedule(tasks, crew))
    alone_s = min(tasks.alone_s(device) for device in evaluator.devices)
    useful = sorted(
        (one for one in schedules if one.end_s < alone_s), key=lambda schedule: schedule.end_s
    )
    drafts = dict.fromkeys(tasks.draft(one.places) for one in useful)
    return list(drafts)[:_MOST_DRAFTS]


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
    """Where chains begin, and the end: at layers that do not follow from the one before alone."""
    outline, graph = evaluator.outline, evaluator.graph
    borders = [0]
    for place in range(1, len(outline)):
        before, layer = (graph.layer(outline.order[p]) for p in (place - 1, place))
        readers = {one.name for tensor in before.outputs for one in graph.readers(tensor)}
        is_chain = set(layer.inputs) <= set(before.outputs) and readers == {layer.name}
        if not is_chain or outline.pins.get(place) != outline.pins.get(place - 1):
            borders.append(place)
    return [*borders, len(outline)]


class Schedule:
    """Tasks on devices, each where it ends first, those with most to come after them first.

    Attributes:
        places: The device of each task.
        end_s: When the answer is there.
    """

    def __init__(self, tasks: Tasks, crew: Sequence[str]) -> None:
        self._tasks, self._crew = tasks, crew
        self._home = tasks.evaluator.requester
        #: By device: intervals in which it computes; by pair of devices: until when the link sends.
        self._busy: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._free_s: dict[tuple[str, str], float] = defaultdict(float)
        #: By tensor: where it is, and since when.
        self._there_s: dict[str, dict[str, float]] = defaultdict(dict)
        for tensor in tasks.evaluator.graph.inputs:
            self._there_s[tensor][self._home] = 0.0
        self.places = [""] * len(tasks.all)
        self.end_s = 0.0
        ranks = self._ranks()
        for number in sorted(range(len(ranks)), key=lambda n: -ranks[n]):
            self._place(number)

    def _ranks(self) -> list[float]:
        """The mean seconds from the start of each task to the answer."""
        ranks = [0.0] * len(self._tasks.all)
        for number in range(len(ranks) - 1, -1, -1):
            task = self._tasks.all[number]
            after_s = [
                ranks[reader] + sum(map(self._mean_send_s, tensors))
                for reader, tensors in self._tasks.readers[number].items()
            ]
            works = (self._tasks.work_s(task, device) for device in self._crew)
            known = [seconds for seconds in works if seconds < inf]
            ranks[number] = max(after_s, default=0.0) + (fmean(known) if known else 0.0)
        return ranks

    def _mean_send_s(self, tensor: str) -> float:
        pairs = ((a, b) for a in self._crew for b in self._crew)
        known = [s for a, b in pairs if (s := self._tasks.send_s(tensor, a, b)) < inf]
        return fmean(known) if known else 0.0

    def _place(self, number: int) -> None:
        """Put a task where it ends first."""
        task = self._tasks.all[number]
        pins = self._tasks.evaluator.outline.pins
        crew = [pins[task.start]] if task.start in pins else self._crew
        ends = []
        for device in crew:
            seconds = self._tasks.work_s(task, device)
            start_s = self._gap_s(
                device, max(self._arrivals(task, device).values(), default=0.0), seconds
            )
            back_s = sum(self._tasks.send_s(tensor, device, self._home) for tensor in task.answers)
            ends.append((start_s + seconds + back_s, start_s + seconds, device))
        answered_s, end_s, device = min(ends)
        self.end_s = max(self.end_s, answered_s)
        self.places[number] = device
        for tensor, there_s in self._arrivals(task, device, book=True).items():
            self._there_s[tensor][device] = there_s
        seconds = self._tasks.work_s(task, device)
        insort(self._busy[device], (end_s - seconds, end_s))
        for tensor in self._tasks.evaluator.outline.outputs(task.start, task.stop):
            self._there_s[tensor][device] = end_s

    def _arrivals(self, task: Task, device: str, *, book: bool = False) -> dict[str, float]:
        """When each tensor that a task reads is on a device, the soonest way; ``book`` sends it."""
        free_s = self._free_s if book else self._free_s.copy()
        arrivals = {}
        for tensor in task.reads:
            there_s = self._there_s[tensor]
            if device not in there_s:
                owner, made_s = next(iter(there_s.items()))
                seconds = self._tasks.send_s(tensor, owner, device)
                link = self._tasks.evaluator.cluster.link(owner, device)
                start_s = max(made_s, free_s[owner, device])
                free_s[owner, device] = start_s + seconds - (link.latency_s if link else 0.0)
                arrivals[tensor] = start_s + seconds
            else:
                arrivals[tensor] = there_s[device]
        return arrivals

    def _gap_s(self, device: str, from_s: float, seconds: float) -> float:
        """When a device is first free for so long."""
        start_s = from_s
        for begun_s, end_s in self._busy[device]:
            if start_s + seconds <= begun_s:
                break
            start_s = max(start_s, end_s)
        return start_s
