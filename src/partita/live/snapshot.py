"""What people and machines see of a session while it runs: plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

from partita.plan import Plan

#: Whether a device computes for the plan, does not answer, is lost, or has no part of the plan.
DeviceState = Literal["runs", "silent", "lost", "idle"]


class Expectation(msgspec.Struct, frozen=True):
    """What a plan is predicted to do while inputs never run out.

    Attributes:
        busy: Per device, the share of the time for which it computes.
        bytes_per_s: Per link, as ``(source, target, bytes per second)``.
    """

    images_per_s: float
    p50_s: float
    p99_s: float
    busy: dict[str, float]
    bytes_per_s: tuple[tuple[str, str, float], ...]


class Gain(msgspec.Struct, frozen=True):
    """What a change would gain over the plan, planned for anew and simulated.

    Attributes:
        gain: 2 where what the objective makes small is half.
        most_gain: No plan gains more; None where no bound is known.
    """

    name: str
    gain: float
    most_gain: float | None = None


class Scene(msgspec.Struct, frozen=True):
    """What is known of a plan before it runs.

    Attributes:
        title: Which model on which cluster.
        kinds: Per device of the cluster, what it is.
        rates: Per link of the cluster that the plan uses, its bytes per second.
        expected: None where nobody predicted it.
        advice: Per place (a device, or the ends of a link), what more of it would gain.
        gains: What changes would gain, the most first; empty where nobody looked for it.
    """

    title: str
    plan: Plan
    kinds: dict[str, str]
    rates: tuple[tuple[str, str, float], ...] = ()
    expected: Expectation | None = None
    advice: tuple[tuple[tuple[str, ...], str], ...] = ()
    gains: tuple[Gain, ...] = ()


class DeviceView(msgspec.Struct, frozen=True):
    """One device now.

    Attributes:
        busy: Share of the last seconds for which it computed; None where that is not known yet.
        expected: The same as predicted, at full load.
        queue: How many others a step found before it on the compute lane, on average.
        memory_bytes: What its worker holds beyond an idle one.
        limit_bytes: What it may hold; 0 where nobody knows.
    """

    name: str
    kind: str
    state: DeviceState
    busy: float | None = None
    expected: float | None = None
    queue: float = 0.0
    memory_bytes: int = 0
    limit_bytes: int = 0


class LinkView(msgspec.Struct, frozen=True):
    """One link now.

    Attributes:
        bytes_per_s: Payload of the last seconds.
        load: Of its rate; None where that is unknown.
        expected: The same as predicted, at full load.
    """

    source: str
    target: str
    bytes_per_s: float
    load: float | None = None
    expected: float | None = None


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the plan.

    Attributes:
        at_s: On the leader's clock, as that of the snapshot.
        kind: What came of it so far, as :class:`partita.execution.Change` has it.
    """

    at_s: float
    kind: str
    text: str


class Snapshot(msgspec.Struct, frozen=True):
    """A session at one time.

    Attributes:
        at_s: On the leader's clock.
        plan: Hash of the plan that runs.
        answers: Requests answered so far, also by sessions before this one.
        open: Requests under way.
        waiting: Requests that wait to be fed.
        images_per_s: Of the last seconds; None where that is not known yet.
        p50_s: Of the last answers under this plan; None where there are none.
        links: The busiest first, no more than can be read.
        link_count: How many links carry something.
        advice: What bounds the throughput, and what would gain.
        outcomes: How many changes of plan there were by their outcome.
        down: Why nothing is answered any more; empty while it is.
    """

    at_s: float
    title: str
    plan: str
    answers: int
    open: int
    waiting: int
    in_flight: int
    images_per_s: float | None
    p50_s: float | None
    p99_s: float | None
    expected: Expectation | None
    devices: tuple[DeviceView, ...]
    links: tuple[LinkView, ...]
    link_count: int
    events: tuple[Event, ...]
    advice: tuple[str, ...]
    outcomes: dict[str, int] = {}
    down: str = ""
