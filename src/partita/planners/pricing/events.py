"""The steps of a draft as an event graph: for drafts whose steps may overtake each other."""

from __future__ import annotations

from collections.abc import Sequence

from partita.execution import LinkClocks
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.placement import Holdings, TensorPlacement
from partita.planners.pricing.tasks import Read, StageTasks
from partita.planners.pricing.transfers import Transfer, TransferCosts
from partita.simulation import EventGraph, Message

_FEED = 0


class TaskEvents:
    """Adds the tasks of a draft to an event graph, in the order of a layout's steps."""

    def __init__(self, cost: StepCosts, transfers: TransferCosts) -> None:
        self.graph = EventGraph()
        self.graph.feeds.append(self.graph.add("feed", 0.0, _FEED))
        self._transfers = transfers
        self._names = cost.cluster.names
        self._clocks = LinkClocks(cost.links)
        self._held: dict[str, Holdings[int]] = {}

    def feed(self, tensor: str, placement: TensorPlacement) -> None:
        """Add an input of the network."""
        self._held[tensor] = Holdings.of(placement, [_FEED]).copy()

    def add(self, block: StageTasks) -> None:
        """Add the tasks of a block."""
        steps = []
        for task in block.tasks:
            waits = self._gather(task.device, task.reads)
            steps.append(self._add((task.device, "compute"), task.seconds, waits))
        for tensor, placement in block.made:
            self._held[tensor] = Holdings.of(placement, steps).copy()

    def answer(self, device: int, reads: Sequence[Read]) -> None:
        """Add the last step, which assembles the answer."""
        waits = self._gather(device, reads)
        self.graph.last = self._add((device, "answer"), 0.0, waits)

    def _add(self, lane: tuple[int, object], seconds: float, waits: Sequence[int]) -> int:
        return self.graph.add(lane, seconds, len(self.graph.keys), waits)

    def _gather(self, device: int, reads: Sequence[Read]) -> list[int]:
        """Add the messages that bring what a task reads; return the steps that it waits for."""
        waits: list[int] = []
        for tensor, box, number in reads:
            held = self._held[tensor]
            pieces, makers = held.pieces[device], held.marks[device]
            fetch = pieces.known.get(number) or pieces.fetch(box, number, self._transfers)
            if fetch is None:
                raise ValueError(f"tensor {tensor!r} cannot reach device {device}")
            if fetch.after is not None:
                received = [
                    self._send(move, held.marks[move.source][move.piece], device)
                    for move in fetch.moves
                ]
                makers = (*makers, *received)
                held.put(device, fetch.after, makers)
            waits += [makers[use] for use in fetch.uses]
        return waits

    def _send(self, move: Transfer, made_by: int, device: int) -> int:
        """Add the two steps of a message, and return the one that receives it."""
        ends = (self._names[move.source], self._names[device])
        sender = self._add((move.source, device), move.encode_s, (made_by,))
        receiver = self._add((device, "receive"), move.decode_s, ())
        clock, is_shared = self._clocks.between(*ends), self._clocks.is_shared(*ends)
        self.graph.messages[sender] = Message(clock, move.wire_bytes, is_shared, receiver, sender)
        return receiver
