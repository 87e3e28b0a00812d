"""The cost of messages between two workers, as measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from partita.errors import InputError
from partita.fabric import Endpoint
from partita.fabric.base import unreachable
from partita.worker.messages import (
    MAX_PROBE_BYTES,
    MAX_REPEATS,
    MessageFlow,
    MessageTimes,
    TimeMessages,
    decode_message,
    encode_message,
)

#: For all repeats of the largest message, on a link of about 1 Mbit/s.
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class LinkSample:
    """One message size on one link.

    Attributes:
        seconds: From sending to complete arrival, one way; median.
        spread_s: Distance between the quartiles.
        count: Number of messages.
    """

    size_bytes: int
    seconds: float
    spread_s: float
    count: int


def measure_link(
    endpoint: Endpoint, source: str, target: str, sizes: Sequence[int], *, repeats: int = 5
) -> tuple[LinkSample, ...]:
    """The seconds of messages from ``source`` to ``target``, per size.

    Half of the shortest round trip of an empty message is taken off for the acknowledgement.

    Args:
        endpoint: A leader's endpoint that reaches both workers.
        sizes: In bytes.
        repeats: Messages per size.

    Raises:
        InputError: More repeats or bytes than a worker takes, or fewer than 2 repeats.
        RunError: A worker is not there, or a message did not arrive.
    """
    _check("repeats", repeats, 2, MAX_REPEATS)
    for size in sizes:
        _check("bytes per message", size, 0, MAX_PROBE_BYTES)
    empty = MessageFlow(target, 0, min(2 * repeats, MAX_REPEATS))
    back_s = min(time_flows(endpoint, source, empty)[0]) / 2
    samples = []
    for size in sizes:
        (taken,) = time_flows(endpoint, source, MessageFlow(target, size, repeats))
        times = [seconds - back_s for seconds in taken]
        low, middle, high = statistics.quantiles(times, n=4)
        samples.append(LinkSample(size, middle, high - low, len(times)))
    return tuple(samples)


def measure_rate(endpoint: Endpoint, source: str, target: str, size_bytes: int) -> float:
    """The bytes per second of a link, by one message beside two empty ones.

    Raises:
        RunError: A worker is not there, or a message did not arrive.
    """
    ((*empty_s,),) = time_flows(endpoint, source, MessageFlow(target, 0, 2))
    ((full_s,),) = time_flows(endpoint, source, MessageFlow(target, size_bytes, 1))
    return size_bytes / max(full_s - min(empty_s), 1e-6)


def _check(what: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise InputError(
            f"A link cannot be timed with {given} {what}: allowed are {least} to {most}.",
            subject=what,
        )


def time_flows(
    endpoint: Endpoint, source: str, *flows: MessageFlow, timeout_s: float = _TIMEOUT_S
) -> tuple[tuple[float, ...], ...]:
    """Per flow, the seconds of each message's way and that of its acknowledgement.

    Raises:
        RunError: A worker is not there, or a message did not arrive.
    """
    alive = endpoint.peers()
    for name in (source, *(flow.target for flow in flows)):
        if name not in alive:  # a call would wait for it to come
            raise unreachable(name, alive)
    answer = endpoint.call(source, "probe", encode_message(TimeMessages(flows)), timeout_s)
    return decode_message(answer, MessageTimes).seconds
