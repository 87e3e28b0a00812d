"""Samples of sessions that never ran: totals of workers as a test says, at times as it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

import msgspec

from partita.execution import Change
from partita.leader import Lost, Sample
from partita.live.snapshot import Expectation, Scene
from partita.plan import Identity, Plan, Shard, Stage
from partita.worker.messages import LaneQueue, SendTotals, Stats

DEVICES = ("camera", "recorder")
#: Two samples a second.
STEP_S = 0.5


def stats_of(
    busy_s: float = 0.0, sent: Mapping[str, int] | None = None, **changes: object
) -> Stats:
    """Totals of a device that has computed for so long and sent so many bytes."""
    totals = tuple(SendTotals(target, nbytes, 0.0) for target, nbytes in (sent or {}).items())
    return msgspec.structs.replace(Stats(busy_s, 100, 20, 20, totals, 0, 0, ()), **changes)


def sample_of(at_s: float, stats: Mapping[str, Stats], **changes: object) -> Sample:
    """A sample of a plan on two devices with one request in flight."""
    facts = Sample(at_s, "p", 1, 1, 0, 0, 0, (), DEVICES, dict(stats), {}, Lost(), ())
    return msgspec.structs.replace(facts, **changes)


def plan_of(*devices: str) -> Plan:
    """A plan of two stages: the first in replicas, the second on the first device."""
    replicas = tuple(Shard(device) for device in devices)
    stages = (
        Stage("body", ("conv1", "conv2"), "replica", replicas, shares=(1,) * len(devices)),
        Stage("head", ("fc",), "none", (Shard(devices[0]),)),
    )
    return Plan(Identity("net", "m" * 64), Identity("lab", "c" * 64), stages, "best", in_flight=4)


def scene_of(*devices: str, title: str = "net on lab", **changes: object) -> Scene:
    """What is known of that plan: each device half busy, links from the first half loaded."""
    pairs = [(devices[0], other) for other in devices[1:]]
    expected = Expectation(
        10.0,
        0.1,
        0.2,
        dict.fromkeys(devices, 0.5),
        tuple((*pair, 500.0) for pair in pairs),
    )
    scene = Scene(
        title,
        plan_of(*devices),
        dict.fromkeys(devices, "raspberry-pi-4"),
        tuple((*pair, 1000.0) for pair in pairs),
        expected,
    )
    return msgspec.structs.replace(scene, **changes)


def replay(names: tuple[str, ...]) -> Callable[[int], Sample]:
    """A session of many devices that goes on by half a second each time it is asked.

    Every device sends to every other one, computes for more of the time than the one before, and
    one is lost after a while.
    """
    turns = count()
    change = Change(
        2.0, f"device '{names[-1]}' is lost", "recovered", f"without '{names[-1]}'", 0.3
    )

    def take(since: int) -> Sample:
        turn = next(turns)
        at_s = turn * STEP_S
        is_lost = turn > 6
        used = names[:-1] if is_lost else names
        stats = {
            name: stats_of(
                at_s * (n + 1) / (len(names) + 1),
                {other: int(at_s * 1000 * (n + 1)) for other in used if other != name},
                queues=(LaneQueue("compute", (turn * 2, turn, 0, turn)),),
                resident_bytes=10_000_000 * (n + 1),
            )
            for n, name in enumerate(used)
        }
        return Sample(
            at_s,
            "p",
            2 if is_lost else 1,
            4,
            5 * turn,
            4,
            2,
            (0.1, 0.12, 0.2),
            used,
            stats,
            dict.fromkeys(used, 500_000_000),
            Lost((names[-1],)) if is_lost else Lost(),
            (change,) if is_lost else (),
        )

    return take
