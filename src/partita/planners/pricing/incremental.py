"""The latency of drafts without programs: one pass over their stages, from the first changed one.

A device's lanes take the oldest ready step; in a single request steps become ready, as a rule, in
the order of the program, and then times follow from one pass. Where a step might overtake another
the pass says so, and the draft is priced by the event simulation. What both give is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import add, attrgetter

from partita.cost.memory import MOST_COPIES
from partita.graph.grids import travel_formats
from partita.planners.drafts.draft import Draft, DraftLowering
from partita.planners.options import PlanOptions
from partita.planners.pricing.costs import Costs, StepCosts
from partita.planners.pricing.events import TaskEvents
from partita.planners.pricing.placement import Fetch, Holdings, TensorPlacement
from partita.planners.pricing.pricing_state import (
    IDLE,
    UNUSED,
    Arrival,
    ImpossibleError,
    Lane,
    OvertakenError,
    PortUse,
    PricingState,
    TooSlowError,
)
from partita.planners.pricing.tasks import Read, StageTasks, TaskBuilder
from partita.planners.pricing.time_left import TimeLeft
from partita.planners.pricing.transfers import Transfer, TransferCosts

#: Remembered states; beyond, all are forgotten. Not tuned: more take memory, fewer price again what
#: was priced.
_MOST_STATES = 6000
#: Power of times in the lateness: high, so that late steps count most. Not tuned: a sum of ends at
#: 1, the last end alone as it grows.
_LATENESS_POWER = 6
#: What sums of the same times in another order may differ by, relative to them.
_ROUNDING = 1e-12
#: A message, when its piece is made, its place in the program, and where its arrival is written.
_Send = tuple[Transfer, float, int, list[float], int]


def _price(end: PricingState, latency_s: float) -> DraftPrice:
    links_s = [lane.busy_s for lane in end.sends.values()]
    wires_s = max([0.0, *links_s, *(use.busy_s for use in end.ports.values())])
    return DraftPrice(latency_s, end.load_bytes, end.busy_s, wires_s, end.messages, end.lateness)


@dataclass(frozen=True)
class DraftPrice:
    """What one pass tells of a draft.

    Attributes:
        latency_s: Of one request.
        load_bytes: Per device of the cluster, at most so much memory but for the process itself and
            what the engine makes between layers.
        busy_s: Per device, seconds of computing.
        wires_s: The busiest link's or port's seconds.
        lateness: How late everything is: grows with the times of all steps, the last ones most.
    """

    latency_s: float
    load_bytes: Sequence[int]
    busy_s: Sequence[float]
    wires_s: float
    messages: int
    lateness: float


class IncrementalPricer:
    """Prices drafts on links that do not change and share no medium.

    Args:
        cost: Seconds of works, encoding and decoding, and the links.
        options: Wire formats, tensors kept, requests in flight.
    """

    def __init__(self, cost: StepCosts, lowering: DraftLowering, options: PlanOptions) -> None:
        self._cost = cost
        self._blocks = TaskBuilder(cost, lowering, options)
        formats = travel_formats(lowering.outline.graph, options.wires)
        self._transfers = TransferCosts(cost, formats, self._blocks)
        self._in_flight = options.in_flight
        self._kept = {
            tensor: self._blocks.numbers[device] for tensor, device in options.keep_on.items()
        }
        self._devices = len(cost.cluster.names)
        self._requester = self._blocks.numbers[cost.cluster.requester]
        self._begin_s = cost.admit_s
        self._answer = self._blocks.answer().reads
        self._time_left = TimeLeft(self._transfers, self._requester, self._answer)
        self._root = self._make_root()
        self._count = 0

    def _make_root(self) -> PricingState:
        state = PricingState(self._devices)
        for tensor, placement in self._blocks.feeds():
            state.held[tensor] = self._hold(tensor, placement, [self._begin_s])
            size_bytes = self._cost.graph.size_bytes(tensor)
            state.load_bytes[self._requester] += size_bytes * (self._in_flight + MOST_COPIES)
        return state

    @staticmethod
    def can_price(draft: Draft) -> bool:
        """Whether all requests take the same way through a draft."""
        return all(stage.axis != "replica" for stage in draft)

    def price(self, draft: Draft, limit_s: float = inf) -> DraftPrice:
        """A draft's price.

        Raises:
            ImpossibleError: The draft breaks a rule.
            TooSlowError: It takes longer than ``limit_s``; found out soon where it ends like a
                draft that was expected.
        """
        if self._count > _MOST_STATES:
            self._root.next.clear()
            self._count = 0
        try:
            return self._pass(list(self._blocks.of(draft)), limit_s)
        except OvertakenError:
            return self.price_by_events(draft)

    def expect(self, draft: Draft) -> None:
        """Expect drafts that end like this one, which keeps all rules: late ones are given up."""
        self._time_left.learn(list(self._blocks.of(draft)))

    def states(self, draft: Draft) -> Iterator[PricingState]:
        """Yield the state after each stage of a draft, as far as one pass tells."""
        state = self._root
        for index in range(len(draft)):
            try:
                for block in self._blocks.last(draft[: index + 1]):
                    state = self._after(state, block)
            except (OvertakenError, ImpossibleError):
                return
            yield state

    def begin(self) -> PricingState:
        """The state before all stages."""
        return self._root

    def extend(self, state: PricingState, draft: Draft) -> PricingState | None:
        """The state after the last stage of a draft; None where one pass does not tell.

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
        """When the requester has the answer, from the state after all stages."""
        try:
            return self._gather(state.copy(), self._requester, self._answer)
        except (OvertakenError, ImpossibleError):
            return inf

    def free_s(self, state: PricingState, device: str) -> float:
        """When a device's computing is done."""
        return state.free_s[self._blocks.numbers[device]]

    def _pass(self, blocks: Sequence[StageTasks], limit_s: float) -> DraftPrice:
        state = self._root
        left_s = self._time_left.after(blocks) if limit_s < inf else ()
        latest_s = limit_s * (1 + _ROUNDING)
        for place, block in enumerate(blocks):
            state = self._after(state, block)
            if state.needed_s > latest_s:
                raise TooSlowError
            if left_s and left_s[place] and max(map(add, state.ends_s, left_s[place])) > latest_s:
                raise TooSlowError
        end = state.copy()
        latency_s = self._gather(end, self._requester, self._answer)
        return _price(end, latency_s)

    def price_by_events(self, draft: Draft) -> DraftPrice:
        """A draft's price whatever overtakes what; slower, and also for links that change.

        Raises:
            ImpossibleError: The draft breaks a rule.
        """
        events = TaskEvents(self._cost, self._transfers)
        for tensor, placement in self._blocks.feeds():
            events.feed(tensor, placement)
        state = self._root.copy()
        state.ordered = False
        # What does not depend on the order comes from the pass.
        for block in self._blocks.of(draft):
            self._advance(state, block)
            events.add(block)
        self._gather(state, self._requester, self._answer)
        events.answer(self._requester, self._answer)
        return _price(state, events.graph.run(self._begin_s))

    def _after(self, state: PricingState, block: StageTasks) -> PricingState:
        after = state.next.get(block)
        if after is None:
            try:
                after = self._advance(state.copy(), block)
            except (OvertakenError, ImpossibleError) as error:
                after = type(error)
            state.next[block] = after
            self._count += 1
        if isinstance(after, type):
            raise after
        return after

    def _advance(self, state: PricingState, block: StageTasks) -> PricingState:
        """Change a state by the tasks of a block, and return it."""
        free_s, begun_s = state.free_s, state.begun_s
        ends_s = []
        for task in block.tasks:
            device = task.device
            ready_s = self._gather(state, device, task.reads)
            if ready_s <= begun_s[device] and state.ordered:
                raise OvertakenError
            start_s = free_s[device]
            if ready_s >= start_s:
                start_s = begun_s[device] = ready_s
            end_s = free_s[device] = start_s + task.seconds
            state.lateness += end_s**_LATENESS_POWER
            state.busy_s[device] += task.seconds
            state.load_bytes[device] += task.load_bytes
            ends_s.append(end_s)
        state.last_s = max(free_s)
        state.needed_s = max(state.needed_s, min(ends_s) if block.is_copied else max(ends_s))
        state.ends_s = ends_s
        for tensor in block.dead:
            del state.held[tensor]
        for tensor, placement in block.made:
            state.held[tensor] = self._hold(tensor, placement, ends_s)
            state.own.discard(tensor)
        return state

    def _hold(
        self, tensor: str, placement: TensorPlacement, ends_s: Sequence[float]
    ) -> Holdings[float]:
        kept_on = self._kept.get(tensor)
        if kept_on is not None and any(device != kept_on for _, device in placement.makers):
            raise ImpossibleError
        return Holdings.of(placement, ends_s)

    def _gather(self, state: PricingState, device: int, reads: Sequence[Read]) -> float:
        """When a device has all that a task reads, after the messages that bring it."""
        ready_s = 0.0
        sends: list[_Send] = []
        fetched: list[tuple[str, Fetch, list[float]]] = []
        for tensor, box, number in reads:
            held = state.held.get(tensor)
            if held is None:
                raise ImpossibleError
            pieces, there_s = held.pieces[device], held.marks[device]
            fetch = pieces.known.get(number) or pieces.fetch(box, number, self._transfers)
            if fetch is None:
                raise ImpossibleError
            if fetch.moves:
                times = [*there_s]
                for move in fetch.moves:
                    made_s = held.marks[move.source][move.piece]
                    sends.append((move, made_s, len(sends), times, len(times)))
                    times.append(made_s)
                    state.load_bytes[device] += move.size_bytes * (self._in_flight + MOST_COPIES)
                state.messages += len(fetch.moves)
                fetched.append((tensor, fetch, times))
                continue
            for use in fetch.uses:
                if there_s[use] > ready_s:
                    ready_s = there_s[use]
        if sends:
            self._bring(state, device, sends)
        for tensor, fetch, times in fetched:
            if fetch.after is not None:
                state.own_holdings(tensor).put(device, fetch.after, tuple(times))
            for use in fetch.uses:
                if times[use] > ready_s:
                    ready_s = times[use]
        return ready_s

    def _bring(self, state: PricingState, device: int, sends: Sequence[_Send]) -> None:
        """Send messages to a device, and set when their pieces are there."""
        if len(sends) > 1 and any(send[0].ports for send in sends):
            sends = _in_time(state, sends)
        arrivals: list[Arrival] = []
        for move, made_s, place, times, piece in sends:
            times[piece] = sent_s = self._send(state, move, made_s)
            if move.decode_s:
                arrivals.append(Arrival(sent_s, place, move.decode_s, times, piece))
        if arrivals:
            _decode(state, device, arrivals)

    @staticmethod
    def _send(state: PricingState, move: Transfer, made_s: float) -> float:
        """Occupy a piece's link from ``made_s`` on; when it arrives is the answer."""
        free_s, begun_s, busy_s = state.sends.get(move.lane, IDLE)
        if made_s < begun_s and state.ordered:
            raise OvertakenError
        start_s = free_s
        if made_s >= free_s:
            start_s = begun_s = made_s
        encode_s, per_message_s, wire_s = move.encode_s, move.per_message_s, move.wire_s
        end_s = start_s + encode_s + per_message_s + wire_s
        busy_s = busy_s + encode_s + per_message_s + wire_s
        if move.ports:
            busy_s += move.link_s - (per_message_s + wire_s)
            end_s = max(end_s, _pass_ports(state, move, start_s + encode_s))
        state.sends[move.lane] = Lane(end_s, begun_s, busy_s)
        state.lateness += end_s**_LATENESS_POWER
        return end_s + move.latency_s


def _in_time(state: PricingState, sends: Sequence[_Send]) -> Sequence[_Send]:
    """Messages in the order in which ports are given them, where their links are all different."""
    if len({send[0].lane for send in sends}) < len(sends):
        return sends

    def given_s(send: _Send) -> float:
        move, made_s = send[0], send[1]
        return max(made_s, state.sends.get(move.lane, IDLE).free_s) + move.encode_s

    return sorted(sends, key=given_s)


def _pass_ports(state: PricingState, move: Transfer, given_s: float) -> float:
    """Occupy the ports on a message's way; when the slower one is through with it."""
    end_s, begun_s = 0.0, given_s
    for port, seconds in move.ports:
        before_s, free_s, busy_s = state.ports.get(port, UNUSED)
        if given_s < before_s and state.ordered:
            raise OvertakenError
        begun_s = max(begun_s, free_s)
        free_s = begun_s + seconds
        state.ports[port] = PortUse(given_s, free_s, busy_s + seconds)
        end_s = max(end_s, free_s)
    return end_s


def _decode(state: PricingState, device: int, arrivals: list[Arrival]) -> None:
    """Decode messages one by one, the first of the program among those that are there."""
    free_s, begun_s, busy_s = state.receives.get(device, IDLE)
    waiting = sorted(arrivals)
    if waiting[0].there_s <= begun_s and state.ordered:
        raise OvertakenError
    while waiting:
        there = [arrival for arrival in waiting if arrival.there_s <= free_s]
        if there and there[-1].there_s == free_s and state.ordered:
            raise OvertakenError
        chosen = min(there, key=attrgetter("place"), default=waiting[0])
        if not there:
            free_s = begun_s = chosen.there_s
        free_s += chosen.decode_s
        busy_s += chosen.decode_s
        chosen.ready_s[chosen.piece] = free_s
        waiting.remove(chosen)
    state.receives[device] = Lane(free_s, begun_s, busy_s)


def make_pricer(
    cost: Costs, lowering: DraftLowering, options: PlanOptions
) -> IncrementalPricer | None:
    """The pricer of a network's drafts; None where programs are needed."""
    if not isinstance(cost, StepCosts) or options.objective == "memory":
        return None
    if any(link.trace or link.medium is not None for link in cost.links.values()):
        return None
    return IncrementalPricer(cost, lowering, options)
