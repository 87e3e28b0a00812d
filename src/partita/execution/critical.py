"""The critical path of a request: what its latency is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from partita.execution.report import Report, Span

PartKind = Literal["compute", "transfer", "handle", "wait", "feed"]
#: Clocks of two devices agree to about this; far below any step that decides. Not tuned.
_CLOCKS_S = 2e-4
#: Differences of times below it are none. Far below any step; not tuned.
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class PathPart:
    """One piece of a critical path.

    Attributes:
        kind: Computing, a message on its way, work on messages, nothing that is known, or inputs
            and outputs between the leader and the requester.
        where: Device, or two of them for a transfer.
    """

    kind: PartKind
    where: tuple[str, ...]
    seconds: float


def critical_path(spans: Iterable[Span], request: int) -> list[PathPart]:
    """What a request waited for, from its last step backwards; the parts add up to its length.

    Before each step comes the one that ended last of those that it may have waited for: for a
    piece that is received the sending of it, else whatever its own device did for this request.

    Args:
        spans: Of a run; those of other requests are left out.
        request: Its number.
    """
    own = [span for span in spans if span.request == request]
    parts: list[PathPart] = []
    span = max(own, key=lambda span: span.end_s, default=None)
    until_s = span.end_s if span is not None else 0.0
    while span is not None:
        parts.append(_work(span, max(0.0, until_s - span.start_s)))
        until_s = min(until_s, span.start_s)
        own = [other for other in own if other is not span]
        before = max(_before(own, span), key=lambda other: other.end_s, default=None)
        if before is None:
            break
        gap_s = until_s - before.end_s
        is_sent = before.device != span.device
        if gap_s > 0:
            where = (before.device, span.device) if is_sent else (span.device,)
            parts.append(PathPart("transfer" if is_sent else "wait", where, gap_s))
        until_s = min(until_s, before.end_s)
        span = before
    return parts[::-1]


def _before(spans: Sequence[Span], span: Span) -> list[Span]:
    """The steps that ``span`` may have waited for."""
    ended = [other for other in spans if other.end_s <= span.start_s + _CLOCKS_S]
    if span.lane == "receive":
        lane = f"send:{span.device}"
        sent = [other for other in ended if other.lane == lane and other.label == span.label]
        if sent:
            return sent
    return [other for other in ended if other.device == span.device]


def _work(span: Span, seconds: float) -> PathPart:
    head, _, target = span.lane.partition(":")
    if head == "compute":
        return PathPart("compute", (span.device,), seconds)
    if head == "send":
        return PathPart("transfer", (span.device, target), seconds)
    return PathPart("handle", (span.device,), seconds)


def share_out(report: Report) -> dict[tuple[PartKind, tuple[str, ...]], float]:
    """Seconds per kind and place on the :func:`typical_path`, the largest first."""
    sums: dict[tuple[PartKind, tuple[str, ...]], float] = {}
    for part in typical_path(report):
        key = (part.kind, part.where)
        sums[key] = sums.get(key, 0.0) + part.seconds
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def typical_path(report: Report) -> list[PathPart]:
    """The critical path of a typical request, in order of time but for what steps do not tell.

    The request is the one whose latency is the median's; empty where no steps were recorded. What
    it took beyond its steps went by between leader and requester, as far as no request took less
    there; the rest of it was waiting for the first step. Where clocks make its steps seem to take
    longer than that, those after its answer do not count.
    """
    if not report.spans or not report.latencies_s:
        return []
    typical_s = report.quantile_s(0.5)
    request = report.latencies_s.index(typical_s)
    path = [*critical_path(report.spans, request), *_beyond_steps(report, request)]
    return list(_within(typical_s, path))


def _within(latency_s: float, parts: Iterable[PathPart]) -> Iterator[PathPart]:
    """Yield parts, the first ones first, until they add up to a latency."""
    for part in parts:
        seconds = min(part.seconds, latency_s)
        latency_s -= seconds
        yield replace(part, seconds=seconds)


def _beyond_steps(report: Report, request: int) -> list[PathPart]:
    """What the request took before its first step and after its last one."""
    own = [span for span in report.spans if span.request == request]
    if not own:
        return []
    first = min(own, key=lambda span: span.start_s)
    outside_s = _outside_s(report)
    feed_s = min(outside_s.values())
    parts = (
        PathPart("feed", (first.device,), feed_s),
        PathPart("wait", (first.device,), outside_s[request] - feed_s),
    )
    return [part for part in parts if part.seconds > _ROUNDING_S]


def _outside_s(report: Report) -> dict[int, float]:
    """Per request with steps, the seconds of its latency that lie outside of these."""
    begins_s: dict[int, float] = {}
    ends_s: dict[int, float] = {}
    for span in report.spans:
        begins_s[span.request] = min(begins_s.get(span.request, span.start_s), span.start_s)
        ends_s[span.request] = max(ends_s.get(span.request, span.end_s), span.end_s)
    latencies = enumerate(report.latencies_s)
    return {k: max(0.0, s - (ends_s[k] - begins_s[k])) for k, s in latencies if k in ends_s}
