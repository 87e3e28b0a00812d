"""What a session does now, for whoever looks on: asked for, never sent unasked."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import msgspec

from partita.errors import RunError
from partita.execution import Change
from partita.leader.deployment import Deployment
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.history import History
from partita.leader.losses import Lost
from partita.worker.messages import Stats, encode_message

#: Latencies of one sample at most: who asks twice a second misses none below 2000 answers/s.
_MOST_LATENCIES = 1000
#: A thread takes as long to start as a worker on loopback to answer: 0.1 ms of processor time. One
#: that hangs holds up one thread for a second.
_AT_ONCE = 8


class SampleSince(msgspec.Struct, frozen=True):
    """Asks for a sample with the latencies of the answers from number ``answers`` on."""

    answers: int = 0


class Sample(msgspec.Struct, frozen=True):
    """What a session does at one time.

    Attributes:
        at_s: On the leader's monotonic clock; changes count on the same one.
        plan: Hash of the plan that requests are admitted under.
        epoch: Of that plan.
        in_flight: Most requests under way at the same time.
        answers: Requests answered, also by sessions that this one took the place of.
        open: Requests that were fed and have no answer.
        waiting: Requests that were not fed yet.
        latencies_s: Of the answers from the number asked for on, the last ones.
        devices: Those of the running plan.
        stats: Per device that answered, its totals under that epoch.
        memory_limit_bytes: Per device that has one.
        lost: What the session goes on without.
        changes: Recoveries, searches and deployments, the last ones.
        outcomes: How many changes there were by their outcome.
        down: Why nothing is answered any more; empty while it is.
    """

    at_s: float
    plan: str
    epoch: int
    in_flight: int
    answers: int
    open: int
    waiting: int
    latencies_s: tuple[float, ...]
    devices: tuple[str, ...]
    stats: dict[str, Stats]
    memory_limit_bytes: dict[str, int]
    lost: Lost
    changes: tuple[Change, ...]
    outcomes: dict[str, int] = {}
    down: str = ""


def take_sample(
    monitor: FailureMonitor, lost: Lost, before: History, own: tuple[Change, ...], since: int
) -> Sample:
    """A sample of a session; workers that do not answer within a second are left out.

    Args:
        monitor: Of the session.
        lost: What it goes on without.
        before: What went before the session.
        own: Its own changes so far, on the leader's monotonic clock.
        since: The number of the first answer whose latency is wanted.
    """
    deployment, tracker = monitor.deployment, monitor.tracker
    program = deployment.program
    stats = _ask_all(deployment)
    counts = tracker.counts()
    first = max(since - before.answers, counts.answers - _MOST_LATENCIES, 0)
    known = before.with_session(counts.answers, own)
    return Sample(
        time.monotonic(),
        program.plan_hash,
        deployment.epoch,
        program.in_flight,
        known.answers,
        counts.open,
        counts.waiting,
        tuple(request.end_s - request.start_s for request in tracker.latest(first)),
        deployment.devices,
        stats,
        {name: limit for name in stats if (limit := monitor.infos[name].memory_limit_bytes)},
        lost,
        known.keep_last().changes,
        dict(known.outcomes),
        "" if tracker.error is None else tracker.error.message,
    )


def encode_sample(sample: Sample) -> bytes:
    """A sample for others: without what only people ask for who look into one device."""
    lean = {
        name: msgspec.structs.replace(stats, waiting=(), worked=())
        for name, stats in sample.stats.items()
    }
    return encode_message(msgspec.structs.replace(sample, stats=lean))


def _ask_all(deployment: Deployment) -> dict[str, Stats]:
    """The totals of those that answer; some are asked at a time, as each thread costs more."""

    def ask(name: str) -> Stats | None:
        try:
            return deployment.stats(name)
        except RunError:
            return None

    with ThreadPoolExecutor(_AT_ONCE, "leader-sample") as pool:
        answers = list(pool.map(ask, deployment.devices))
    pairs = zip(deployment.devices, answers, strict=True)
    return {name: stats for name, stats in pairs if stats is not None}
