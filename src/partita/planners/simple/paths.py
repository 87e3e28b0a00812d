"""Whole paths through the network on devices: parts that exchange little.

Source: linear clustering, Kim and Browne, "A general approach to mapping of parallel computation
upon multiprocessor architectures" (1988). List scheduling looks at one task at a time, and in a
small network none is worth a message; a path from input to answer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf

from partita.planners.drafts.draft import Draft
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.simple.chains import Task, Tasks

#: A path with less than this share of the longest one's work is no part of its own. Not tuned: a
#: residual block's projection has a tenth where there are three blocks.
_LEAST_SHARE = 1 / 8
#: Most parts, those with most work; and most placements of them that are priced. Not tuned.
_MOST_PARTS, _MOST_PRICED = 16, 300


def path_drafts(tasks: Tasks, crews: Sequence[Sequence[str]]) -> list[Draft]:
    """The best placement found of the network's parts; none where it has one part only.

    From a balanced placement on each crew, single parts are moved and pairs are swapped as long
    as that is better.

    Args:
        crews: Devices to begin with.
    """
    parts = find_parts(tasks)
    if len(set(parts)) < 2:
        return []
    search = _Search(tasks, parts)
    starts = {search.balanced(crew) for crew in crews}
    best = min(sorted(starts), key=search.score)
    return [search.draft(search.improved(best))]


def spread_parts(evaluator: Evaluator, devices: Sequence[str]) -> Draft:
    """The network's parts shared out among devices by work alone, however long messages take."""
    tasks = Tasks(evaluator)
    search = _Search(tasks, find_parts(tasks))
    return search.draft(search.balanced(devices))


def find_parts(tasks: Tasks) -> list[int]:
    """For each task the number of its part, from 0: the longest path, then the next one...

    A path goes on where a tensor costs most to move: from each task to the longest way on among
    those whose largest input it makes. What is too short for a part, or done before its input has
    come to another device, is in the part with which it exchanges most bytes.
    """
    mains = [_main_input(tasks, task) for task in tasks.all]
    paths = _Paths(tasks, [tasks.all[n].reads.get(main, -1) for n, main in enumerate(mains)])
    least_s = _LEAST_SHARE * paths.work_s(paths.all[0])
    long = [path for path in paths.all if paths.work_s(path) >= least_s]
    paid = [p for p in long if paths.work_s(p) >= _least_send_s(tasks, mains[p[0]])]
    kept = [_without_end(tasks, path, mains) for path in paid[:_MOST_PARTS]]
    numbers = {task: number for number, path in enumerate(kept) for task in path}
    while len(numbers) < len(tasks.all):
        joined = {
            task: part
            for task in range(len(tasks.all))
            if task not in numbers and (part := _nearest(tasks, task, numbers)) is not None
        }
        numbers |= joined or {t: 0 for t in range(len(tasks.all)) if t not in numbers}
    return [numbers[task] for task in range(len(tasks.all))]


def _main_input(tasks: Tasks, task: Task) -> str:
    """The largest tensor that a task reads of others, the first among equals; empty for none."""
    outline = tasks.evaluator.outline
    layers = map(outline.graph.layer, outline.layers(task.start, task.stop))
    read = [name for layer in layers for name in layer.inputs if task.reads.get(name, -1) >= 0]
    return max(read, key=outline.size_bytes, default="")


def _without_end(tasks: Tasks, path: Sequence[int], mains: Sequence[str]) -> Sequence[int]:
    """A path up to where it gives on fewest bytes: what follows is for who reads them."""
    outline = tasks.evaluator.outline
    while len(path) > 1 and not tasks.all[path[-1]].answers:
        last = tasks.all[path[-1]]
        made = sum(map(outline.size_bytes, outline.outputs(last.start, last.stop)))
        if made <= outline.size_bytes(mains[path[-1]]):
            break
        path = path[:-1]
    return path


def _least_send_s(tasks: Tasks, tensor: str) -> float:
    """The seconds of moving a tensor over the best link."""
    devices = tasks.evaluator.devices
    pairs = ((a, b) for a in devices for b in devices if a != b)
    return min((tasks.send_s(tensor, *pair) for pair in pairs), default=inf) if tensor else 0.0


class _Paths:
    """Tasks as paths, those with most work first.

    Args:
        before: The task after which each may go on; -1 for none.
    """

    def __init__(self, tasks: Tasks, before: Sequence[int]) -> None:
        devices = tasks.evaluator.devices
        self._works = [min(tasks.work_s(task, d) for d in devices) for task in tasks.all]
        self._works = [seconds if seconds < inf else 0.0 for seconds in self._works]
        count = len(tasks.all)
        after, rest_s = [-1] * count, self._works.copy()
        for task in range(count - 1, -1, -1):
            if after[task] >= 0:
                rest_s[task] += rest_s[after[task]]
            maker = before[task]
            if maker >= 0 and (after[maker] < 0 or rest_s[task] >= rest_s[after[maker]]):
                after[maker] = task
        starts = [t for t in range(count) if before[t] < 0 or after[before[t]] != t]
        self.all = sorted((self._follow(s, after) for s in starts), key=lambda p: -self.work_s(p))

    def work_s(self, path: Sequence[int]) -> float:
        """The seconds of a path's tasks, each where it is fastest."""
        return sum(self._works[task] for task in path)

    @staticmethod
    def _follow(task: int, after: Sequence[int]) -> list[int]:
        path = [task]
        while after[path[-1]] >= 0:
            path.append(after[path[-1]])
        return path


def _nearest(tasks: Tasks, task: int, numbers: dict[int, int]) -> int | None:
    """The part with which a task exchanges most bytes; None where it exchanges none."""
    size_bytes = tasks.evaluator.outline.size_bytes
    exchanged: Counter[int] = Counter()
    for tensor, maker in tasks.all[task].reads.items():
        if maker in numbers:
            exchanged[numbers[maker]] += size_bytes(tensor)
    for reader, tensors in tasks.readers[task].items():
        if reader in numbers:
            exchanged[numbers[reader]] += sum(map(size_bytes, tensors))
    return max(exchanged, key=exchanged.__getitem__, default=None)


#: The device of each part.
_Placement = tuple[str, ...]


class _Search:
    """Placements of parts, priced exactly."""

    def __init__(self, tasks: Tasks, parts: Sequence[int]) -> None:
        self._tasks, self._parts = tasks, parts
        self._evaluator = tasks.evaluator
        self._priced = 0

    def draft(self, placement: _Placement) -> Draft:
        """The placement as stages; pinned layers are where they must be."""
        pins = self._evaluator.outline.pins
        places = [
            pins.get(task.start, placement[part])
            for task, part in zip(self._tasks.all, self._parts, strict=True)
        ]
        return self._tasks.draft(places)

    def score(self, placement: _Placement) -> tuple[float, ...]:
        """The objective, then what breaks ties."""
        self._priced += 1
        return self._evaluator.score(self.draft(placement))

    def balanced(self, crew: Sequence[str]) -> _Placement:
        """Each part on the device that is then done first, the largest part first.

        The part that answers is where the answer is wanted, if that is one of the devices.
        """
        home, count = self._evaluator.requester, 1 + max(self._parts)
        works = {device: self._works(device, count) for device in crew}
        answering = {
            part for t, part in zip(self._tasks.all, self._parts, strict=True) if t.answers
        }
        busy_s, chosen = dict.fromkeys(crew, 0.0), [""] * count
        order = sorted(range(count), key=lambda p: (p not in answering, -works[crew[0]][p]))
        for part in order:
            fixed = home in crew and part in answering
            device = home if fixed else min(crew, key=lambda d: busy_s[d] + works[d][part])
            busy_s[device] += works[device][part]
            chosen[part] = device
        return tuple(chosen)

    def _works(self, device: str, count: int) -> list[float]:
        """The seconds of each part on a device, without layers that must be elsewhere."""
        seconds = [0.0] * count
        for task, part in zip(self._tasks.all, self._parts, strict=True):
            work_s = self._tasks.work_s(task, device)
            seconds[part] += work_s if work_s < inf else 0.0
        return seconds

    def improved(self, placement: _Placement) -> _Placement:
        """The placement after all changes that make it better, one at a time."""
        best, score = placement, self.score(placement)
        tried = {best}
        is_better = True
        while is_better:
            is_better = False
            for other in self._changed(best):
                if self._priced > _MOST_PRICED or self._evaluator.budget.is_late(1.0):
                    return best
                if other in tried:
                    continue
                tried.add(other)
                if (other_score := self.score(other)) < score:
                    best, score, is_better = other, other_score, True
                    break
        return best

    def _changed(self, placement: _Placement) -> Iterator[_Placement]:
        """Yield placements with one part elsewhere, then with two exchanged."""
        for part, here in enumerate(placement):
            for device in self._evaluator.devices:
                if device != here:
                    yield (*placement[:part], device, *placement[part + 1 :])
        for first, second in combinations(range(len(placement)), 2):
            if placement[first] != placement[second]:
                changed = list(placement)
                changed[first], changed[second] = changed[second], changed[first]
                yield tuple(changed)
