"""The latency of drafts without programs: one pass over their stages, from the first changed one.

A device's lanes take the oldest ready step; in a single request steps become ready, as a rule, in
the order of the program, and then times follow from one pass. Where a step might overtake another
the pass says so, and the draft is priced by the event simulation. What both give is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from partita.planners.drafts.draft import Draft, DraftLowering
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.events import EventGraph
from partita.planners.pricing.placement import DevicePieces, Fetch, TensorPlacement
from partita.planners.pricing.tasks import Read, StageTasks, TaskBuilder
from partita.planners.pricing.transfers import Transfer, TransferCosts

#: Remembered states; beyond, all are forgotten.
_MOST_STATES = 6000
#: Power of times in the lateness: high, so that late steps count most.
_LATENESS_POWER = 6
#: Per device: what it holds of a tensor, and when each of its pieces is there.
Held = list[tuple[DevicePieces, tuple[float, ...]]]
#: When a piece arrives, its order, seconds of decoding, and where the time goes.
Arrival = tuple[float, int, float, list[float], int]
#: When a lane is free, and since when its idle time, if any, has been used up.
Lane = tuple[float, float]
_IDLE: Lane = (0.0, -1.0)


class OvertakenError(Exception):
    """A step may have to run before one that the program lists first."""


class ImpossibleError(Exception):
    """A draft breaks a rule; the full way of pricing says which."""


class TooSlowError(Exception):
    """Some device computes longer than a limit."""


class PricingState:
    """Where everything is after some blocks.

    Attributes:
        free_s: Per device, when its computing is done.
        used_s: Per device, a step must not become ready before this to keep the order.
        sends: Per pair of devices that was used.
        receives: Per device that spent time on receiving.
        held: Live tensors.
        load_bytes: Per device, at most so much memory.
        wires_s: Per pair of devices, seconds busy.
        busy_s: Per device, seconds of computing.
        last_s: When all computing is done.
        lateness: Sum of powers of the ends of all steps.
        ordered: Whether a step that might overtake another is refused.
    """

    __slots__ = (
        "busy_s", "free_s", "held", "last_s", "lateness", "load_bytes", "messages", "next",
        "ordered", "receives", "sends", "used_s", "wires_s",
    )  # fmt: skip

    def __init__(self, devices: int) -> None:
        self.free_s = [0.0] * devices
        self.used_s = [-1.0] * devices
        self.busy_s = [0.0] * devices
        self.load_bytes = [0] * devices
        self.sends: dict[int, Lane] = {}
        self.receives: dict[int, Lane] = {}
        self.wires_s: dict[int, float] = {}
        self.held: dict[str, Held] = {}
        self.messages = 0
        self.lateness = 0.0
        self.last_s = 0.0
        self.ordered = True
        self.next: dict[StageTasks, PricingState | Exception] = {}

    def copy(self) -> PricingState:
        """Return a state that can be changed without changing this one."""
        other = PricingState.__new__(PricingState)
        other.free_s = self.free_s.copy()
        other.used_s = self.used_s.copy()
        other.busy_s = self.busy_s.copy()
        other.load_bytes = self.load_bytes.copy()
        other.sends = self.sends.copy()
        other.receives = self.receives.copy()
        other.wires_s = self.wires_s.copy()
        other.held = self.held.copy()
        other.messages = self.messages
        other.lateness = self.lateness
        other.last_s = self.last_s
        other.ordered = self.ordered
        other.next = {}
        return other


def _price(end: PricingState, latency_s: float) -> DraftPrice:
    wires_s = max(end.wires_s.values(), default=0.0)
    return DraftPrice(latency_s, end.load_bytes, end.busy_s, wires_s, end.messages, end.lateness)


@dataclass(frozen=True)
class DraftPrice:
    """What one pass tells of a draft.

    Attributes:
        latency_s: Of one request.
        load_bytes: Per device of the cluster, at most so much memory but for the engine's arena.
        busy_s: Per device, seconds of computing.
        wires_s: The busiest link's seconds.
        messages: Pieces that are sent.
        lateness: How late everything is: grows with the times of all steps, the last ones most.
    """

    latency_s: float
    load_bytes: Sequence[int]
    busy_s: Sequence[float]
    wires_s: float
    messages: int
    lateness: float


class IncrementalPricer:
    """Prices drafts on links that do not change and are not shared.

    Args:
        cost: Seconds of works, encoding and decoding, and the links.
        drafter: Turns drafts into boxes.
        options: Wire formats, tensors kept, requests in flight.
    """

    def __init__(self, cost: StepCosts, drafter: DraftLowering, options: PlanOptions) -> None:
        self._blocks = TaskBuilder(cost, drafter, options)
        self._wires = TransferCosts(cost, options.wires, self._blocks)
        self._in_flight = options.in_flight
        self._kept = {
            tensor: self._blocks.numbers[device] for tensor, device in options.keep_on.items()
        }
        self._devices = len(cost.cluster.names)
        self._requester = self._blocks.numbers[cost.cluster.requester]
        self._begin_s = cost.admit_s
        self._answer = self._blocks.answer().reads
        self._root = self._make_root()
        self._count = 0

    def _make_root(self) -> PricingState:
        state = PricingState(self._devices)
        for tensor, made in self._blocks.feeds():
            held: Held = [(local, ()) for local in made.locals]
            held[self._requester] = (held[self._requester][0], (self._begin_s,))
            state.held[tensor] = held
        return state

    @staticmethod
    def can_price(draft: Draft) -> bool:
        """Whether all requests take the same way through a draft."""
        return all(stage.axis != "replica" for stage in draft)

    def price(self, draft: Draft, limit_s: float = inf) -> DraftPrice:
        """Return a draft's price.

        Raises:
            ImpossibleError: The draft breaks a rule.
            TooSlowError: Some device computes longer than ``limit_s``.
        """
        if self._count > _MOST_STATES:
            self._root.next.clear()
            self._count = 0
        blocks = list(self._blocks.of(draft))
        try:
            return self._pass(blocks, limit_s)
        except OvertakenError:
            return self._replay(blocks)

    def begin(self) -> PricingState:
        """Return the state before all stages."""
        return self._root

    def extend(self, state: PricingState, draft: Draft) -> PricingState | None:
        """Return the state after the last stage of a draft; None where one pass does not tell.

        Args:
            state: After the stages before.
            draft: The stages up to the one to be added.
        """
        try:
            for block in self._blocks.last(draft):
                state = self._advance(state.copy(), block)
        except (OvertakenError, ImpossibleError):
            return None
        return state

    def answer_s(self, state: PricingState) -> float:
        """Return when the requester has the answer, from the state after all stages."""
        try:
            return self._gather(state.copy(), self._requester, self._answer)
        except (OvertakenError, ImpossibleError):
            return inf

    def free_s(self, state: PricingState, device: str) -> float:
        """Return when a device's computing is done."""
        return state.free_s[self._blocks.numbers[device]]

    def _pass(self, blocks: Sequence[StageTasks], limit_s: float) -> DraftPrice:
        state = self._root
        for block in blocks:
            state = self._after(state, block)
            if state.last_s > limit_s:
                raise TooSlowError
        end = state.copy()
        latency_s = self._gather(end, self._requester, self._answer)
        return _price(end, latency_s)

    def _replay(self, blocks: Sequence[StageTasks]) -> DraftPrice:
        """Return the price by events; what does not depend on the order comes from the pass."""
        tape = EventGraph(self._wires)
        for tensor, made in self._blocks.feeds():
            tape.feed(tensor, made)
        state = self._root.copy()
        state.ordered = False
        for block in blocks:
            self._advance(state, block)
            tape.add(block)
        self._gather(state, self._requester, self._answer)
        tape.answer(self._requester, self._answer)
        return _price(state, tape.run(self._begin_s))

    def _after(self, state: PricingState, block: StageTasks) -> PricingState:
        found = state.next.get(block)
        if found is None:
            try:
                found = self._advance(state.copy(), block)
            except (OvertakenError, ImpossibleError) as error:
                found = error
            state.next[block] = found
            self._count += 1
        if isinstance(found, Exception):
            raise found
        return found

    def _advance(self, state: PricingState, block: StageTasks) -> PricingState:
        """Change a state by the tasks of a block, and return it."""
        free, used = state.free_s, state.used_s
        ends = []
        for task in block.tasks:
            device = task.device
            ready_s = self._gather(state, device, task.reads)
            if ready_s <= used[device] and state.ordered:
                raise OvertakenError
            start_s = free[device]
            if ready_s >= start_s:
                start_s = used[device] = ready_s
            end_s = free[device] = start_s + task.seconds
            state.lateness += end_s**_LATENESS_POWER
            state.busy_s[device] += task.seconds
            state.load_bytes[device] += task.load_bytes
            ends.append(end_s)
        state.last_s = max(free)
        for tensor in block.dead:
            del state.held[tensor]
        for tensor, made in block.made:
            state.held[tensor] = self._hold(tensor, made, ends)
        return state

    def _hold(self, tensor: str, made: TensorPlacement, ends: Sequence[float]) -> Held:
        held: Held = [(local, ()) for local in made.locals]
        kept = self._kept.get(tensor)
        for task, device in made.makers:
            if kept is not None and kept != device:
                raise ImpossibleError
            local, times = held[device]
            held[device] = (local, (*times, ends[task]))
        return held

    def _gather(self, state: PricingState, device: int, reads: Sequence[Read]) -> float:
        """Return when a device has all that a task reads, after the moves that bring it."""
        ready_s = 0.0
        late: list[Arrival] = []
        moved: list[tuple[str, Fetch, list[float]]] = []
        for tensor, box, number in reads:
            held = state.held.get(tensor)
            if held is None:
                raise ImpossibleError
            local, times = held[device]
            fetch = local.known.get(number) or local.fetch(box, number, self._wires)
            if fetch is None:
                raise ImpossibleError
            if fetch.moves:
                there = [*times]
                for move in fetch.moves:
                    sent_s = self._send(state, move, held[move.source][1][move.piece])
                    if move.decode_s:
                        late.append((sent_s, len(late), move.decode_s, there, len(there)))
                    there.append(sent_s)
                    state.load_bytes[device] += move.size_bytes * self._in_flight
                state.messages += len(fetch.moves)
                moved.append((tensor, fetch, there))
                continue
            for use in fetch.uses:
                if times[use] > ready_s:
                    ready_s = times[use]
        if late:
            _receive(state, device, late)
        for tensor, fetch, there in moved:
            held = state.held[tensor] = state.held[tensor].copy()
            held[device] = (fetch.after, tuple(there))
            for use in fetch.uses:
                if there[use] > ready_s:
                    ready_s = there[use]
        return ready_s

    @staticmethod
    def _send(state: PricingState, move: Transfer, made_s: float) -> float:
        """Return when a piece arrives that is made at ``made_s``, and occupy its link."""
        free_s, used_s = state.sends.get(move.lane, _IDLE)
        if made_s < used_s and state.ordered:
            raise OvertakenError
        start_s = free_s
        if made_s >= free_s:
            start_s = used_s = made_s
        end_s = start_s + move.encode_s + move.per_message_s + move.wire_s
        state.sends[move.lane] = (end_s, used_s)
        busy_s = state.wires_s.get(move.lane, 0.0)
        state.wires_s[move.lane] = busy_s + move.encode_s + move.per_message_s + move.wire_s
        state.lateness += end_s**_LATENESS_POWER
        return end_s + move.latency_s


def _receive(state: PricingState, device: int, late: list[Arrival]) -> None:
    """Decode pieces one by one, the first of the program among those that are there."""
    free_s, used_s = state.receives.get(device, _IDLE)
    if min(late)[0] <= used_s and state.ordered:
        raise OvertakenError
    waiting = sorted(late)
    while waiting:
        ready = [one for one in waiting if one[0] <= free_s]
        if ready and max(ready)[0] == free_s and state.ordered:
            raise OvertakenError
        chosen = min(ready, key=lambda one: one[1]) if ready else waiting[0]
        if not ready:
            free_s = used_s = chosen[0]
        free_s += chosen[2]
        chosen[3][chosen[4]] = free_s
        waiting.remove(chosen)
    state.receives[device] = (free_s, used_s)
