"""The report of a real run, from what workers logged on their own clocks."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from partita.errors import RunError
from partita.execution import DeviceUse, LinkUse, QueueUse, Report, ReportBuilder, StepUse
from partita.leader.clocks import measure_offset
from partita.leader.deployment import Deployment
from partita.leader.past_requests import PastRequest
from partita.leader.worker_group import WorkerGroup
from partita.program import Compute, Program, Send
from partita.regions import read_format
from partita.worker.messages import Stats, WorkerSpan


@dataclass(frozen=True)
class EpochLog:
    """The spans and totals that the workers kept of one epoch.

    Attributes:
        spans: Per device, its spans on the leader's clock; None where tracing was off.
        stats: Per device, its totals.
    """

    epoch: int
    program: Program
    spans: dict[str, list[WorkerSpan]] | None
    stats: dict[str, Stats]

    @classmethod
    def fetch(cls, group: WorkerGroup, deployment: Deployment, trace: bool) -> EpochLog:
        """Ask every worker that answers; one that is lost leaves a gap."""
        spans: dict[str, list[WorkerSpan]] = {}
        stats: dict[str, Stats] = {}
        for name in group.names:
            if name not in deployment.devices:
                continue
            try:
                stats[name] = deployment.stats(name)
                if trace:
                    offset_s = measure_offset(group, name)
                    spans[name] = [_shift(span, offset_s) for span in deployment.spans(name)]
            except RunError:
                continue  # lost between the run and the report: the rest is still worth reporting
        return cls(deployment.epoch, deployment.program, spans if trace else None, stats)


def _shift(span: WorkerSpan, by_s: float) -> WorkerSpan:
    return replace(span, start_s=span.start_s + by_s, end_s=span.end_s + by_s)


def build_report(
    logs: Sequence[EpochLog],
    requests: Sequence[PastRequest],
    made_by: tuple[str, int],
    unpaced: Container[str] = (),
) -> Report:
    """The report of some answered requests.

    Args:
        logs: Per epoch, what its workers logged.
        requests: At least one.
        made_by: Planner and seed.
        unpaced: Devices whose sends do not last as long as their links take.
    """
    requests = sorted(requests, key=lambda request: request.index)
    first_s = min(request.start_s for request in requests)
    makespan_s = max(request.end_s for request in requests) - first_s
    latencies_s = tuple(request.end_s - request.start_s for request in requests)
    parts = [_report_epoch(log, requests, first_s, made_by) for log in logs]
    return Report(
        *made_by,
        latencies_s,
        makespan_s,
        _merge_devices(part.devices for part in parts),
        _merge_links((part.links for part in parts), unpaced),
        tuple(span for part in parts for span in part.spans),
        _merge_queues(queue for part in parts for queue in part.queues),
        tuple(step for part in parts for step in part.steps),
    )


def _report_epoch(
    log: EpochLog, requests: Sequence[PastRequest], first_s: float, made_by: tuple[str, int]
) -> Report:
    if log.spans is None:
        return _report_totals(log, made_by)
    builder = ReportBuilder(log.program, planner=made_by[0], seed=made_by[1])
    index_of = {r.number: r.index - requests[0].index for r in requests if r.epoch == log.epoch}
    for span in (span for spans in log.spans.values() for span in spans):
        index = index_of.get(span.request)
        if index is not None:
            builder.record(span.step, index, span.start_s - first_s, span.end_s - first_s)
    memory = {name: _memory_bytes(stats) for name, stats in log.stats.items()}
    report = builder.build((), 0.0, memory, _list_queues(log))
    told = (use if use.name in log.spans else DeviceUse(use.name) for use in report.devices)
    links = (_count_payloads(log, use) for use in report.links if use.source in log.spans)
    return replace(report, devices=tuple(told), links=tuple(links))


def _count_payloads(log: EpochLog, use: LinkUse) -> LinkUse:
    """A link's use with the bytes that really left, where payloads are compressed.

    Workers count them since the deployment: the requests of the report have their part of that.
    """
    streams = {
        s.id: s for s in log.program.streams if (s.source, s.target) == (use.source, use.target)
    }
    if not any(read_format(stream.wire).method for stream in streams.values()):
        return use
    sends = {
        step.id: streams[step.stream].wire_bytes
        for step in log.program.device(use.source).steps
        if isinstance(step, Send) and step.stream in streams
    }
    spans = (log.spans or {})[use.source]
    expected = sum(sends[span.step] for span in spans if span.step in sends)
    sent = sum(each.bytes for each in log.stats[use.source].sent if each.target == use.target)
    return replace(use, bytes=round(use.bytes * sent / expected)) if expected else use


def _memory_bytes(stats: Stats) -> int:
    """What a worker's process holds beyond an idle one; where unknown, weights and pieces."""
    return stats.resident_bytes or stats.weight_bytes + stats.peak_piece_bytes


def _list_queues(log: EpochLog) -> Iterator[QueueUse]:
    for name, stats in log.stats.items():
        for queue in stats.queues:
            if any(queue.found):
                yield QueueUse(name, queue.lane, queue.found)


def _report_totals(log: EpochLog, made_by: tuple[str, int]) -> Report:
    """Totals since the deployment, for workers that keep no spans."""
    devices = tuple(
        DeviceUse(name, log.stats[name].busy_s, _memory_bytes(log.stats[name]))
        if name in log.stats
        else DeviceUse(name)
        for name in (part.device for part in log.program.devices)
    )
    links = tuple(
        LinkUse(name, sent.target, sent.bytes, sent.busy_s)
        for name, stats in log.stats.items()
        for sent in stats.sent
        if sent.target in log.stats
    )
    labels = {s.id: s.label for p in log.program.devices for s in p.steps if isinstance(s, Compute)}
    steps = tuple(
        StepUse(name, done.step, labels[done.step], done.count, done.p50_s, done.p90_s, done.p99_s)
        for name, stats in log.stats.items()
        for done in stats.worked
    )
    return Report(*made_by, (), 0.0, devices, links, queues=tuple(_list_queues(log)), steps=steps)


def _merge_devices(groups: Iterable[Sequence[DeviceUse]]) -> tuple[DeviceUse, ...]:
    merged: dict[str, DeviceUse] = {}
    for use in (use for group in groups for use in group):
        old = merged.get(use.name)
        if old is None or old.busy_s is None:
            merged[use.name] = use
        elif use.busy_s is not None:
            peak = max(old.peak_memory_bytes or 0, use.peak_memory_bytes or 0)
            merged[use.name] = DeviceUse(use.name, old.busy_s + use.busy_s, peak)
    return tuple(merged.values())


def _merge_queues(queues: Iterable[QueueUse]) -> tuple[QueueUse, ...]:
    merged: dict[tuple[str, str], tuple[int, ...]] = {}
    for queue in queues:
        before = merged.get((queue.device, queue.lane), (0,) * len(queue.found))
        found = tuple(map(sum, zip(before, queue.found, strict=True)))
        merged[queue.device, queue.lane] = found
    return tuple(QueueUse(*lane, found) for lane, found in merged.items())


def _merge_links(
    groups: Iterable[Sequence[LinkUse]], unpaced: Container[str]
) -> tuple[LinkUse, ...]:
    merged: dict[tuple[str, str], LinkUse] = {}
    for use in (use for group in groups for use in group):
        pair = (use.source, use.target)
        old = merged.get(pair, LinkUse(*pair, 0, 0.0))
        busy_s = None if use.source in unpaced else (old.busy_s or 0.0) + (use.busy_s or 0.0)
        merged[pair] = LinkUse(*pair, old.bytes + use.bytes, busy_s)
    return tuple(merged[pair] for pair in sorted(merged))
