"""Whether a device's links share a port: what it sends to, and receives from, several at once."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from partita.execution import Link
from partita.fabric import Endpoint
from partita.leader.links import time_flows
from partita.worker.messages import MAX_FLOWS, MessageFlow

#: What a flow's message takes on its own link, within the sizes below: flows of links of unequal
#: rates then end at about the same time. A round number, not tuned.
_MESSAGE_S = 0.04
_LEAST_BYTES, _MOST_BYTES = 2**16, 2**22
#: The first message of a flow may find an empty queue or a full token bucket: the median does not.
_REPEATS = 3
#: How many times as long messages take beside others, from which on a port is seen: two links that
#: share one make it 2, a busy processor up to 1.05 here. A round number between, not tuned.
_LEAST_SLOWING = 1.25


@dataclass(frozen=True)
class SharedRate:
    """Links that begin, or end, at one device, while all of them are in use.

    Attributes:
        bytes_per_s: Of all together.
        fastest_bytes_per_s: Of the fastest link alone.
        slowing: How many times as long messages took as on their link alone; median over links.
    """

    bytes_per_s: float
    fastest_bytes_per_s: float
    slowing: float

    @property
    def limit_bytes_per_s(self) -> float | None:
        """What they share; None where they do not clearly share anything.

        No less than the fastest link alone, which has shown that so much gets through.
        """
        if self.slowing < _LEAST_SLOWING:
            return None
        return max(self.fastest_bytes_per_s, self.bytes_per_s)


@dataclass(frozen=True)
class PortSample:
    """Both directions of a device's port; None where it has no two links to measure."""

    device: str
    sends: SharedRate | None
    receives: SharedRate | None

    @property
    def bytes_per_s(self) -> float | None:
        """The slower of the directions that are limited; None where no limit was seen."""
        rates = [way.limit_bytes_per_s for way in (self.sends, self.receives) if way is not None]
        return min((rate for rate in rates if rate is not None), default=None)


def measure_port(endpoint: Endpoint, device: str, links: Iterable[Link]) -> PortSample:
    """What a device sends to several others at once, and receives from several at once.

    Args:
        endpoint: A leader's that reaches the workers.
        links: As measured, one at a time. Those of a shared medium are left out: what they share
            is known. Of the rest the fastest, as many as a worker sends to at the same time.

    Raises:
        RunError: A worker is not there, or a message did not arrive.
    """
    fastest = sorted(links, key=lambda link: -link.bandwidth_bytes_per_s)
    alone = [link for link in fastest if link.medium is None]
    out = [link for link in alone if link.source == device][:MAX_FLOWS]
    into = [link for link in alone if link.target == device][:MAX_FLOWS]

    def send() -> Sequence[tuple[float, ...]]:
        return time_flows(endpoint, device, *map(_flow, out))

    def receive() -> Sequence[tuple[float, ...]]:
        with ThreadPoolExecutor(len(into), "port") as pool:
            times = pool.map(lambda link: time_flows(endpoint, link.source, _flow(link)), into)
            return [seconds for (seconds,) in times]

    return PortSample(
        device,
        _share(out, send()) if len(out) > 1 else None,
        _share(into, receive()) if len(into) > 1 else None,
    )


def _flow(link: Link) -> MessageFlow:
    size = min(max(_LEAST_BYTES, int(link.bandwidth_bytes_per_s * _MESSAGE_S)), _MOST_BYTES)
    return MessageFlow(link.target, size, _REPEATS)


def _share(links: Sequence[Link], times: Sequence[Sequence[float]]) -> SharedRate:
    sizes = [_flow(link).size_bytes for link in links]
    # An acknowledgement takes about as long as a message without bytes.
    alone_s = [
        link.message_s(size) + link.latency_s for link, size in zip(links, sizes, strict=True)
    ]
    taken_s = [statistics.median(seconds) for seconds in times]
    slowing = (taken / alone for taken, alone in zip(taken_s, alone_s, strict=True))
    # Turns are not always fair. Until the last flow has ended, a port that limits is in use.
    return SharedRate(
        _REPEATS * sum(sizes) / max(map(sum, times)),
        links[0].bandwidth_bytes_per_s,
        statistics.median(slowing),
    )
