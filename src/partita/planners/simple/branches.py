"""Parallel branches of the network on different devices, by list scheduling and as whole paths.

Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing" (2002): heterogeneous earliest finish time, here with links that carry one
message at a time. Tasks are chains of layers that nothing leaves or enters in between.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from math import inf
from statistics import fmean

from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.simple.chains import Task, Tasks
from partita.planners.simple.paths import path_drafts
from partita.planners.simple.rows import device_speeds
from partita.planners.simple.single import single_drafts

#: Numbers of devices that are tried, the fastest first, and then all of them. Not tuned.
_CREWS = (2, 3, 4, 6, 8)
#: Schedules that are priced, those that end first. Not tuned.
_MOST_DRAFTS = 3


@register("branches", cost="cheap")
def plan_branches(evaluator: Evaluator) -> Chosen:
    """Chains of layers on devices such that parallel branches run at the same time."""
    drafts = [*single_drafts(evaluator), *branch_drafts(evaluator)]
    return Chosen(evaluator.best(drafts))


def branch_drafts(evaluator: Evaluator) -> list[Draft]:
    """Schedules on the fastest two, three... devices, and whole paths on some of them.

    None where the network has no branches.
    """
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
    return [*list(drafts)[:_MOST_DRAFTS], *path_drafts(tasks, crews)]


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
