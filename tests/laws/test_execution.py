"""Laws of the state machine: whatever the order of events, every request gets its one answer."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.execution import (
    Action,
    Admission,
    Arrived,
    Credited,
    Delivered,
    Event,
    Fed,
    Finished,
    Free,
    GiveCredit,
    Loaded,
    Machine,
    Start,
    StartLoad,
)
from partita.program import Compute, Feed, Program, Receive, Send, Stream, is_active
from tests.laws.programs import programs

REQUESTS = 7


class RandomWorld:
    """Drives a program's machines and lets everything under way end in random order.

    It looks on from outside and notes what a right machine must never do.
    """

    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.dice = random.Random(seed)
        self.streams = {stream.id: stream for stream in program.streams}
        self.received = {
            step.write: step.stream
            for part in program.devices
            for step in part.steps
            if isinstance(step, Receive)
        }
        self.steps = {step.id: step for part in program.devices for step in part.steps}
        self.machines = {
            part.device: Machine(part, program.streams, program.in_flight, loaders=2)
            for part in program.devices
        }
        self.admission = Admission(program.routes, program.in_flight, program.shares)
        self.pending: list[tuple[str, Event]] = []
        self.routes: dict[int, tuple[int, ...]] = {}
        self.done: set[tuple[int, int]] = set()
        self.started: list[tuple[int, int]] = []
        self.live: set[tuple[int, int]] = set()
        self.writes = 0
        self.under_way: Counter[int] = Counter()
        self.busy: set[tuple[str, str]] = set()
        self.answers: list[int] = []

    def run(self) -> None:
        """Feed all requests and go on until nothing is under way."""
        for name, machine in self.machines.items():
            self.act(name, machine.begin())
        fed = 0
        while self.pending or fed < REQUESTS:
            if fed < REQUESTS and self.admission.has_room:
                request, self.routes[fed] = self.admission.admit()
                self.pending.append((self.program.requester, Fed(request, self.routes[fed])))
                fed += 1
            device, event = self.take()
            self.note(device, event)
            self.act(device, self.machines[device].handle(event))

    def take(self) -> tuple[str, Event]:
        """Return something under way; only inputs keep their order."""
        place = self.dice.randrange(len(self.pending))
        if isinstance(self.pending[place][1], Fed):
            place = next(i for i, (_, event) in enumerate(self.pending) if isinstance(event, Fed))
        return self.pending.pop(place)

    def note(self, device: str, event: Event) -> None:
        """Look at an event before the machine does."""
        if isinstance(event, Finished):
            step = self.steps[event.step]
            self.busy.discard((device, self.lane(event.step)))
            self.done.add((event.step, event.request))
            if isinstance(step, Compute):
                self.write(step.writes, event.request)
            elif isinstance(step, Receive):
                self.write((step.write,), event.request)
        elif isinstance(event, Fed):
            for part in self.program.devices:
                feeds = [step.write for step in part.steps if isinstance(step, Feed)]
                self.write(tuple(feeds), event.request)

    def write(self, buffers: tuple[int, ...], request: int) -> None:
        """Note that buffers are filled."""
        for buffer in buffers:
            assert (buffer, request) not in self.live
            self.live.add((buffer, request))
            self.writes += 1

    def lane(self, step: int) -> str:
        """Return the lane that a step takes."""
        found = self.steps[step]
        if isinstance(found, Send):
            return f"send:{self.streams[found.stream].target}"
        return type(found).__name__

    def act(self, device: str, actions: list[Action]) -> None:
        """Do what the machine asks, and check that it may."""
        for action in actions:
            if isinstance(action, StartLoad):
                self.pending.append((device, Loaded(action.step)))
            elif isinstance(action, Start):
                self.start(device, action)
            elif isinstance(action, Free):
                self.live.remove((action.buffer, action.request))
                stream = self.received.get(action.buffer)
                if stream is not None and not self.streams[stream].credit:
                    self.under_way[stream] -= 1
            elif isinstance(action, GiveCredit):
                self.under_way[action.stream] -= 1
                source = self.streams[action.stream].source
                self.pending.append((source, Credited(action.stream)))
            elif isinstance(action, Delivered):
                self.answers.append(action.request)
                self.admission.finish(action.request)

    def start(self, device: str, action: Start) -> None:
        """Check a start: the lane is free, the inputs are there, the stream has credit."""
        lane = (device, self.lane(action.step))
        assert lane not in self.busy, "a lane does one thing at a time"
        self.busy.add(lane)
        self.started.append((action.step, action.request))
        step = self.steps[action.step]
        if isinstance(step, Send):
            assert (step.read, action.request) in self.live
            stream = self.streams[step.stream]
            self.under_way[stream.id] += 1
            limit = stream.credit or self.program.in_flight
            assert self.under_way[stream.id] <= limit, "credit is never exceeded"
            arrived = Arrived(stream.id, action.request, self.routes[action.request])
            self.pending.append((stream.target, arrived))
        elif not isinstance(step, Receive):
            self.check_inputs(device, step, action.request)
        self.pending.append((device, Finished(action.step, action.request)))

    def check_inputs(self, device: str, step: object, request: int) -> None:
        """Check that every buffer that the route fills is there."""
        part = self.program.device(device)
        filled = set()
        for writer in part.steps:
            if is_active(getattr(writer, "when", ()), self.routes[request]):
                filled.update(getattr(writer, "writes", ()), [getattr(writer, "write", None)])
        for read in getattr(step, "reads", ()):
            for buffer in read.buffers:
                if buffer in filled:
                    assert (buffer, request) in self.live, "all inputs before"


def steps_on_route(program: Program, route: tuple[int, ...]) -> set[int]:
    """Return the ids of the steps that are started for a request."""
    return {
        step.id
        for part in program.devices
        for step in part.steps
        if is_active(getattr(step, "when", ()), route)
        and type(step).__name__ not in ("Load", "Feed")
    }


@settings(max_examples=80)
@given(programs(), st.integers(0, 2**32))
def test_any_order_of_events_answers_each_request_once(program: Program, seed: int) -> None:
    """Every step of every request runs exactly once, whatever ends first."""
    world = RandomWorld(program, seed)
    world.run()
    assert sorted(world.answers) == list(range(REQUESTS))
    wanted = {
        (step, request)
        for request in range(REQUESTS)
        for step in steps_on_route(program, world.routes[request])
    }
    assert Counter(world.started) == Counter(wanted)


@settings(max_examples=80)
@given(programs(), st.integers(0, 2**32))
def test_nothing_is_held_when_all_is_answered(program: Program, seed: int) -> None:
    """Every buffer is freed once, every credit is back, and no request is remembered."""
    world = RandomWorld(program, seed)
    world.run()
    assert world.live == set()
    assert world.writes >= REQUESTS
    assert not any(world.under_way.values())
    assert all(machine.open_requests == () for machine in world.machines.values())
    assert all(machine.state() == () for machine in world.machines.values())


@settings(max_examples=60)
@given(programs(replicas=False), st.integers(0, 2**32))
def test_without_replicas_each_step_serves_requests_in_order(program: Program, seed: int) -> None:
    """No step takes a request before an earlier one, and answers come in order."""
    world = RandomWorld(program, seed)
    world.run()
    for step in {step for step, _ in world.started}:
        served = [request for other, request in world.started if other == step]
        assert served == sorted(served)
    assert world.answers == list(range(REQUESTS))


@settings(max_examples=60)
@given(programs(), st.integers(0, 2**32))
def test_the_same_events_give_the_same_actions(program: Program, seed: int) -> None:
    """A machine is a function of its events alone."""
    first, second = RandomWorld(program, seed), RandomWorld(program, seed)
    first.run()
    second.run()
    assert first.started == second.started


@settings(max_examples=60)
@given(programs(), st.integers(0, 2**32))
def test_every_event_twice_is_refused(program: Program, seed: int) -> None:
    """A doubled event raises and changes nothing: the run still ends right."""
    world = RandomWorld(program, seed)
    handles = {name: machine.handle for name, machine in world.machines.items()}

    def twice(name: str, event: Event) -> list[Action]:
        actions = handles[name](event)
        if not isinstance(event, Credited):
            with pytest.raises(ValueError, match=r"came before|not started|exceeds"):
                handles[name](event)
        return actions

    for name, machine in world.machines.items():
        machine.handle = lambda event, name=name: twice(name, event)  # type: ignore[method-assign, misc]
    world.run()
    assert sorted(world.answers) == list(range(REQUESTS))


def _streams_of(program: Program, device: str) -> list[Stream]:
    return [stream for stream in program.streams if device in (stream.source, stream.target)]


@settings(max_examples=60)
@given(programs(), st.integers(0, 2**32))
def test_live_pieces_are_bounded_by_credits(program: Program, seed: int) -> None:
    """A received piece is held at most as often as its stream has credits."""
    world = RandomWorld(program, seed)
    most: Counter[int] = Counter()
    write = world.write

    def watch(buffers: tuple[int, ...], request: int) -> None:
        write(buffers, request)
        held = Counter(buffer for buffer, _ in world.live)
        for buffer in buffers:
            most[buffer] = max(most[buffer], held[buffer])

    world.write = watch  # type: ignore[method-assign]
    world.run()
    for part in program.devices:
        streams = {stream.id: stream for stream in _streams_of(program, part.device)}
        for step in part.steps:
            if isinstance(step, Receive):
                assert most[step.write] <= (streams[step.stream].credit or program.in_flight)
