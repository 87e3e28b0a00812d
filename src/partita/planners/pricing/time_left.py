"""The least seconds from the end of each task of a draft to the answer, whatever comes before.

The longest path over tasks and messages, as if nothing ever waited for a device or a link. It
depends on the stages from the task's own on, so that a draft which ends like one that is known is
given up after the first stage that is too late for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from partita.planners.pricing.placement import Holdings
from partita.planners.pricing.tasks import Read, StageTasks
from partita.planners.pricing.transfers import Transfer, TransferCosts

#: Remembered ends of drafts; beyond, all are forgotten. Not tuned: more take memory, fewer find
#: again what was known.
_MOST_ENDS = 6000
#: A block, one of its tasks, and seconds since that task's end.
_Origin = tuple[int, int, float]


class _End:
    """The blocks from one on to the last.

    Attributes:
        before: By the block before: all from that one on.
        left_s: Of each task of the first block.
    """

    __slots__ = ("before", "left_s")

    def __init__(self, left_s: Sequence[float]) -> None:
        self.before: dict[StageTasks, _End] = {}
        self.left_s = left_s


class TimeLeft:
    """What is left after each block of drafts; remembers what it was told to learn.

    Args:
        transfers: What messages take.
        requester: Who reads the answer.
        answer: What it reads.
    """

    def __init__(self, transfers: TransferCosts, requester: int, answer: Sequence[Read]) -> None:
        self._transfers = transfers
        self._requester = requester
        self._answer = answer
        self._root = _End(())
        self._count = 0

    def after(self, blocks: Sequence[StageTasks]) -> list[Sequence[float]]:
        """The seconds left after the tasks of each block of a draft; none of what is not known."""
        left: list[Sequence[float]] = [()] * len(blocks)
        end = self._root
        for place in range(len(blocks) - 1, -1, -1):
            before = end.before.get(blocks[place])
            if before is None:
                break
            end = before
            left[place] = end.left_s
        return left

    def learn(self, blocks: Sequence[StageTasks]) -> None:
        """Remember what is left after each block of a draft that keeps all rules."""
        if self._count > _MOST_ENDS:
            self._root.before.clear()
            self._count = 0
        end, place = self._root, len(blocks)
        while place and (before := end.before.get(blocks[place - 1])) is not None:
            end, place = before, place - 1
        if not place:
            return
        paths = _Paths(blocks, self._transfers)
        paths.add_answer(self._requester, self._answer)
        for left_s in paths.left_s()[:place][::-1]:
            place -= 1
            end.before[blocks[place]] = end = _End(left_s)
            self._count += 1


class _Paths:
    """Who waits for whom in a draft, and for how long at least.

    Args:
        blocks: Of the draft.
        transfers: What messages take.
    """

    def __init__(self, blocks: Sequence[StageTasks], transfers: TransferCosts) -> None:
        self._blocks = blocks
        self._transfers = transfers
        self._held: dict[str, Holdings[_Origin]] = {}
        #: Per block and task: what it waits for.
        self._waits: list[list[list[_Origin]]] = []
        for place, block in enumerate(blocks):
            self._waits.append([self._gather(task.device, task.reads) for task in block.tasks])
            marks = [(place, number, 0.0) for number in range(len(block.tasks))]
            for tensor, placement in block.made:
                self._held[tensor] = Holdings.of(placement, marks).copy()
        self._last: list[_Origin] = []

    def add_answer(self, device: int, reads: Sequence[Read]) -> None:
        """Add who reads the answer."""
        self._last = self._gather(device, reads)

    def left_s(self) -> list[list[float]]:
        """The seconds from the end of each task to the answer; minus infinity if none needs it."""
        left = [[-inf] * len(block.tasks) for block in self._blocks]
        for place, number, way_s in self._last:
            left[place][number] = max(left[place][number], way_s)
        for block, waits, ends in zip(
            self._blocks[::-1], self._waits[::-1], left[::-1], strict=True
        ):
            for task, origins, end_s in zip(block.tasks, waits, ends, strict=True):
                after_s = task.seconds + end_s
                for place, number, way_s in origins:
                    if way_s + after_s > left[place][number]:
                        left[place][number] = way_s + after_s
        return left

    def _gather(self, device: int, reads: Sequence[Read]) -> list[_Origin]:
        """Where what a task reads comes from; nothing of the network's inputs."""
        origins: list[_Origin] = []
        for tensor, box, number in reads:
            held = self._held.get(tensor)
            if held is None:
                continue
            pieces, marks = held.pieces[device], held.marks[device]
            fetch = pieces.known.get(number) or pieces.fetch(box, number, self._transfers)
            if fetch is None:
                continue
            if fetch.after is not None:
                sent = [_sent(held.marks[move.source][move.piece], move) for move in fetch.moves]
                marks = (*marks, *sent)
                held.put(device, fetch.after, marks)
            origins += [marks[use] for use in fetch.uses]
        return origins


def _sent(origin: _Origin, move: Transfer) -> _Origin:
    place, number, way_s = origin
    link_s = move.encode_s + move.link_s + move.latency_s
    return place, number, way_s + link_s + move.decode_s
