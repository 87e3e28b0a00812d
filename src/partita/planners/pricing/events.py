"""The latency of drafts whose steps may overtake each other: the event simulation, on numbers.

The same events in the same order as :func:`partita.simulation.latency_s`, without a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from partita.errors import RunError
from partita.planners.pricing.placement import DevicePieces, TensorPlacement
from partita.planners.pricing.tasks import Read, StageTasks
from partita.planners.pricing.transfers import Transfer, TransferCosts
from partita.simulation.order import ARRIVED, FED, FINISHED

#: Per device: what it holds of a tensor, and the steps that make its pieces.
_Held = list[tuple[DevicePieces, tuple[int, ...]]]
_FEED = 0
_RECEIVE_LANE, _COMPUTE_LANE, _ANSWER_LANE = -1, -2, -3


class EventGraph:
    """The steps of one draft, numbered in the order in which a layout makes them.

    Args:
        wires: Prices moves.
    """

    def __init__(self, wires: TransferCosts) -> None:
        self._wires = wires
        self._held: dict[str, _Held] = {}
        self._lane_ids: dict[tuple[int, int], int] = {}
        self.lanes: list[int] = [-1]
        self.seconds: list[float] = [0.0]
        self.moves: list[Transfer | None] = [None]
        self.missing: list[int] = [0]
        self.readers: list[list[int]] = [[]]

    def feed(self, tensor: str, made: TensorPlacement) -> None:
        """Add an input of the network."""
        self._hold(tensor, made, [_FEED])

    def add(self, block: StageTasks) -> None:
        """Add the tasks of a block."""
        steps = []
        for task in block.tasks:
            reads = self._gather(task.device, task.reads)
            steps.append(self._add((task.device, _COMPUTE_LANE), task.seconds, reads))
        for tensor, made in block.made:
            self._hold(tensor, made, steps)

    def answer(self, device: int, reads: Sequence[Read]) -> None:
        """Add the last step, which assembles the answer."""
        self._add((device, _ANSWER_LANE), 0.0, self._gather(device, reads))

    def _hold(self, tensor: str, made: TensorPlacement, steps: Sequence[int]) -> None:
        held: _Held = [(local, ()) for local in made.locals]
        for task, device in made.makers:
            held[device] = (held[device][0], (*held[device][1], steps[task]))
        self._held[tensor] = held

    def _add(self, lane: tuple[int, int], seconds: float, reads: Iterable[int]) -> int:
        number = len(self.lanes)
        self.lanes.append(self._lane_ids.setdefault(lane, len(self._lane_ids)))
        self.seconds.append(seconds)
        self.moves.append(None)
        self.readers.append([])
        waits = 0
        for step in reads:
            self.readers[step].append(number)
            waits += 1
        self.missing.append(waits)
        return number

    def _gather(self, device: int, reads: Sequence[Read]) -> list[int]:
        """Add the moves that bring what a task reads; return the steps that it waits for."""
        waits: list[int] = []
        for tensor, box, number in reads:
            held = self._held[tensor]
            local, makers = held[device]
            fetch = local.known.get(number) or local.fetch(box, number, self._wires)
            if fetch is None:
                raise ValueError(f"tensor {tensor!r} cannot reach device {device}")
            there = [*makers]
            for move in fetch.moves:
                source = held[move.source][1][move.piece]
                sent = self._add((move.source, device), move.encode_s, (source,))
                self.moves[sent] = move
                there.append(self._add((device, _RECEIVE_LANE), move.decode_s, ()))
            held[device] = (fetch.after, tuple(there))
            waits += [there[use] for use in fetch.uses]
        return waits

    def run(self, fed_s: float) -> float:
        """Return when the last step is done, in seconds; the tape is used up.

        Args:
            fed_s: When the inputs are there.
        """
        missing, readers, lanes, seconds = self.missing, self.readers, self.lanes, self.seconds
        moves, last = self.moves, len(self.lanes) - 1
        queues: list[list[int]] = [[] for _ in self._lane_ids]
        running = [False] * len(queues)
        # Seconds, kind, step: a move's ARRIVED names the receiving step, which follows it.
        heap: list[tuple[float, int, int]] = [(fed_s, FED, _FEED)]
        while heap:
            now_s, kind, done = heappop(heap)
            woken = []
            ready = [done]
            if kind != ARRIVED:
                if done == last:
                    return now_s
                if kind == FINISHED:
                    woken.append(lanes[done])
                    running[lanes[done]] = False
                ready = []
                for index in readers[done]:
                    missing[index] -= 1
                    if not missing[index]:
                        ready.append(index)
            for index in ready:
                heappush(queues[lanes[index]], index)
                woken.append(lanes[index])
            for lane in woken:
                if running[lane] or not queues[lane]:
                    continue
                index = heappop(queues[lane])
                running[lane] = True
                end_s = now_s + seconds[index]
                move = moves[index]
                if move is not None:
                    end_s += move.per_message_s
                    end_s += move.wire_s
                    heappush(heap, (end_s + move.latency_s, ARRIVED, index + 1))
                heappush(heap, (end_s, FINISHED, index))
        raise RunError("The draft never delivers: some step waits for what no step makes.")
