"""Stages of drafts as tasks with seconds: what the quick pricing of drafts is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from partita.compile import FragmentWork
from partita.cost.memory import MOST_COPIES, SESSION_BYTES
from partita.planners.drafts.draft import SUMMED, Draft, DraftLowering, DraftStage
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.placement import Piece, TensorPlacement
from partita.program import type_bytes
from partita.regions import Region

#: A tensor, the box of it that a task reads, and a number that stands for both and the work.
Read = tuple[str, Region, int]


class ShardWork:
    """What one device makes of a stage, whichever device it is.

    Attributes:
        owned: The box that the device owns of each stage output.
    """

    __slots__ = ("owned", "reads", "work")

    def __init__(
        self, work: FragmentWork, owned: Mapping[str, Region], numbers: count[int]
    ) -> None:
        self.work = work
        self.owned = owned
        self.reads: tuple[Read, ...] = tuple(
            (tensor, box, next(numbers)) for tensor, box in work.inputs
        )


class Task:
    """One part on one device.

    Attributes:
        seconds: Of one run.
        load_bytes: At most what the task adds to its device's memory: its weights and session, and
            what it makes, for all requests in flight and as copies inside the engine.
    """

    __slots__ = ("device", "load_bytes", "part", "reads", "seconds")

    def __init__(self, device: int, seconds: float, part: ShardWork, load_bytes: int) -> None:
        self.device = device
        self.seconds = seconds
        self.part = part
        self.reads = part.reads
        self.load_bytes = load_bytes


class StageTasks:
    """Tasks that follow each other in the program, and what they leave behind.

    Attributes:
        tasks: In program order.
        made: Tensors that the tasks make, with the task and piece that make each part.
        dead: Tensors that nothing reads after the block.
        is_copied: Whether tasks make the same, so that the answer may need only one of them.
    """

    __slots__ = ("dead", "is_copied", "made", "tasks")

    def __init__(self, tasks: Sequence[Task], dead: frozenset[str]) -> None:
        self.tasks = tuple(tasks)
        self.dead = dead
        self.made: tuple[tuple[str, TensorPlacement], ...] = ()
        self.is_copied = len({id(task.part) for task in tasks}) < len(self.tasks)


class TaskBuilder:
    """Makes the blocks of drafts and remembers them.

    Args:
        options: Tensors kept, requests in flight.
    """

    def __init__(self, cost: StepCosts, drafter: DraftLowering, options: PlanOptions) -> None:
        self._cost = cost
        self._kept = set(options.keep_on)
        self._drafter = drafter
        self._outline = drafter.outline
        self._works = drafter.outline.works
        self._in_flight = options.in_flight
        self.numbers = {name: number for number, name in enumerate(cost.cluster.names)}
        self._keys = count()
        self._parts: dict[tuple[object, ...], list[ShardWork]] = {}
        self._tasks: dict[tuple[object, ...], list[Task]] = {}
        self._blocks: dict[object, tuple[StageTasks, ...]] = {}
        self._layers: dict[tuple[int, int], tuple[str, ...]] = {}
        self._dead: dict[tuple[int, int], frozenset[str]] = {}
        self._specs = cost.graph.tensors
        self._partial_types: dict[str, str] = {}

    def of(self, draft: Draft) -> Iterator[StageTasks]:
        """Yield the blocks of a draft, in order."""
        for index in range(len(draft)):
            yield from self._at(draft, index)

    def last(self, draft: Draft) -> tuple[StageTasks, ...]:
        """The blocks of a draft's last stage."""
        return self._at(draft, len(draft) - 1)

    def _at(self, draft: Draft, index: int) -> tuple[StageTasks, ...]:
        stage = draft[index]
        owner = self._drafter.owner(draft[:index], stage) if stage.axis in SUMMED else None
        key: object = stage if stage.axis != "reduce" else (stage, owner)
        known = self._blocks.get(key)
        if known is None:
            known = self._blocks[key] = self._make(stage, owner)
        return known

    def dtype(self, tensor: str) -> str:
        """The type of a tensor, partial results included."""
        known = self._partial_types.get(tensor)
        return self._specs[tensor].dtype if known is None else known

    def is_kept(self, tensor: str) -> bool:
        """Whether a tensor must not leave its device; sums of parts tell as much as the whole."""
        return tensor in self._kept

    def feeds(self) -> Iterator[tuple[str, TensorPlacement]]:
        """Yield the network's inputs as the requester holds them."""
        home = self.numbers[self._cost.cluster.requester]
        for tensor in self._outline.graph.inputs:
            whole = self._whole(tensor)
            yield tensor, TensorPlacement(tensor, [Piece(0, home, whole, whole)], len(self.numbers))

    def answer(self) -> ShardWork:
        """What the requester reads at the end."""
        outputs = tuple((tensor, self._whole(tensor)) for tensor in self._outline.graph.outputs)
        return ShardWork(FragmentWork("stage", (), outputs, (), 0), {}, self._keys)

    def _whole(self, tensor: str) -> Region:
        return Region.full(self._specs[tensor].shape)

    def _make(self, stage: DraftStage, owner: DraftStage | None) -> tuple[StageTasks, ...]:
        if owner is not None:
            return self._sum(stage, owner)
        tasks: list[Task] = []
        for number, device in enumerate(stage.devices):
            key = (stage.start, stage.stop, *self._drafter.span_key(stage, number))
            known = self._tasks.get((device, *key))
            if known is None:
                shards = self._shards(stage, number, key)
                known = self._tasks[device, *key] = [self._task(device, part) for part in shards]
            tasks += known
        return (self._finish(tasks, stage),)

    def _shards(
        self, stage: DraftStage, number: int, key: tuple[object, ...]
    ) -> Sequence[ShardWork]:
        known = self._parts.get(key)
        if known is None:
            layers = self._range(stage.start, stage.stop)
            outputs = self._works.stage_outputs(layers)
            known = self._parts[key] = []
            for boxes in self._drafter.parts(stage, number):
                owned = {tensor: boxes[tensor] for tensor in outputs}
                if not all(box.is_empty for box in owned.values()):
                    work = self._works.stage(layers, owned)
                    known.append(ShardWork(work, owned, self._keys))
        return known

    def _range(self, start: int, stop: int) -> tuple[str, ...]:
        known = self._layers.get((start, stop))
        if known is None:
            known = self._layers[start, stop] = self._outline.layers(start, stop)
        return known

    def _task(self, device: str, part: ShardWork) -> Task:
        work = part.work
        size_bytes = sum(box.size * type_bytes(self.dtype(tensor)) for tensor, box in work.outputs)
        load = size_bytes * (self._in_flight + MOST_COPIES) + work.weight_bytes + SESSION_BYTES
        return Task(self.numbers[device], self._cost.work_s(device, work), part, load)

    def _finish(
        self, tasks: Sequence[Task], stage: DraftStage, dead: frozenset[str] | None = None
    ) -> StageTasks:
        block = StageTasks(tasks, self._dying(stage) if dead is None else dead)
        pieces: dict[str, list[Piece]] = {}
        for place, task in enumerate(tasks):
            for tensor, box in task.part.work.outputs:
                owned = task.part.owned.get(tensor, box)
                pieces.setdefault(tensor, []).append(Piece(place, task.device, box, owned))
        block.made = tuple(
            (tensor, TensorPlacement(tensor, parts, len(self.numbers)))
            for tensor, parts in pieces.items()
        )
        return block

    def _dying(self, stage: DraftStage) -> frozenset[str]:
        """The tensors from before a stage that nothing after it reads."""
        key = (stage.start, stage.stop)
        known = self._dead.get(key)
        if known is None:
            after = self._outline.live(stage.stop)
            known = frozenset(self._outline.live(stage.start)) - frozenset(after)
            self._dead[key] = known
        return known

    def _sum(self, stage: DraftStage, owner: DraftStage) -> tuple[StageTasks, ...]:
        """Partial results where the parts of the input are, and their merges."""
        layer = self._outline.graph.layer(self._outline.order[stage.start])
        core = self._works.core_output(layer)
        dtype = self._works.sum_dtype(layer)
        tasks, names = [], []
        for number, (device, box) in enumerate(self._drafter.summands(stage, owner)):
            if box.is_empty:
                continue
            name = f"{core}#.{number}"
            self._partial_types[name] = dtype
            if not self._kept.isdisjoint(layer.outputs):
                self._kept.add(name)
            work = self._works.partial(layer, box, name)
            whole = {name: self._works.regions.whole(core)}
            tasks.append(self._task(device, ShardWork(work, whole, self._keys)))
            names.append(name)
        outputs = self._works.stage_outputs((layer.name,))
        owned = {tensor: self._whole(tensor) for tensor in outputs}
        merged = ShardWork(self._works.merge(layer, owned, names), owned, self._keys)
        merges = [self._task(device, merged) for device in self._drafter.mergers(stage)]
        # The layer's input is also read by the merges where followers need it.
        dead = self._dying(stage) | frozenset(names)
        return self._finish(tasks, stage, frozenset()), self._finish(merges, stage, dead)
