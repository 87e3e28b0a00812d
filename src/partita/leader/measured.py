"""The report of a real run, from what workers wrote down on their own clocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partita.errors import RunError
from partita.execution import DeviceUse, LinkUse, Report, ReportBuilder
from partita.leader.clocks import measure_offset
from partita.leader.deployment import Deployment
from partita.leader.requests import Asked
from partita.leader.worker_group import WorkerGroup
from partita.program import Program
from partita.worker.messages import Stats, WorkerSpan


@dataclass(frozen=True)
class Marked:
    """What the workers wrote down in one epoch.

    Attributes:
        marks: Per device, its spans on the leader's clock; None where tracing was off.
        stats: Per device, its sums.
    """

    epoch: int
    program: Program
    marks: dict[str, list[WorkerSpan]] | None
    stats: dict[str, Stats]

    @classmethod
    def fetch(cls, crew: WorkerGroup, deployment: Deployment, trace: bool) -> Marked:
        """Ask every worker that answers; one that is lost leaves a gap."""
        marks: dict[str, list[WorkerSpan]] = {}
        stats: dict[str, Stats] = {}
        used = {part.device for part in deployment.program.devices}
        for name in crew.names:
            if name not in used:
                continue
            try:
                stats[name] = deployment.stats(name)
                if trace:
                    offset_s = measure_offset(crew, name)
                    marks[name] = [_shift(mark, offset_s) for mark in deployment.marks(name)]
            except RunError:
                # Lost between the run and the report: the rest is still worth reporting.
                continue
        return cls(deployment.epoch, deployment.program, marks if trace else None, stats)


def _shift(mark: WorkerSpan, by_s: float) -> WorkerSpan:
    return WorkerSpan(mark.lane, mark.step, mark.request, mark.start_s + by_s, mark.end_s + by_s)


def build_report(
    marked: Sequence[Marked], asked: Sequence[Asked], made_by: tuple[str, int]
) -> Report:
    """The report of some answered requests.

    Args:
        marked: Per epoch, what was written down.
        asked: The requests, in order.
        made_by: Planner and seed.
    """
    asked = sorted(asked, key=lambda a: a.index)
    first_s = min(a.start_s for a in asked)
    makespan_s = max(a.end_s for a in asked) - first_s
    latencies_s = tuple(a.end_s - a.start_s for a in asked)
    parts = [_report_epoch(m, asked, first_s, made_by) for m in marked]
    return Report(
        *made_by,
        latencies_s,
        makespan_s,
        _merge_devices(part.devices for part in parts),
        _merge_links(part.links for part in parts),
        tuple(span for part in parts for span in part.spans),
    )


def _report_epoch(
    marked: Marked, asked: Sequence[Asked], first_s: float, made_by: tuple[str, int]
) -> Report:
    if marked.marks is None:
        return _report_sums(marked, made_by)
    builder = ReportBuilder(marked.program, planner=made_by[0], seed=made_by[1])
    index_of = {a.number: a.index for a in asked if a.epoch == marked.epoch}
    lowest = asked[0].index
    for marks in marked.marks.values():
        for mark in marks:
            index = index_of.get(mark.request)
            if index is not None:
                span_s = (mark.start_s - first_s, mark.end_s - first_s)
                builder.record(mark.step, index - lowest, *span_s)
    peaks = {name: stats.peak_piece_bytes for name, stats in marked.stats.items()}
    return builder.build((), 0.0, peaks)


def _report_sums(marked: Marked, made_by: tuple[str, int]) -> Report:
    """Sums since the deployment, for workers that keep no spans."""
    devices = tuple(
        DeviceUse(name, s.busy_s, s.weight_bytes + s.peak_piece_bytes)
        for name, s in marked.stats.items()
    )
    links = tuple(
        LinkUse(name, sent.target, sent.bytes, sent.busy_s)
        for name, s in marked.stats.items()
        for sent in s.sent
        if sent.target in marked.stats
    )
    return Report(*made_by, (), 0.0, devices, links)


def _merge_devices(groups: Iterable[Sequence[DeviceUse]]) -> tuple[DeviceUse, ...]:
    found: dict[str, DeviceUse] = {}
    for use in (use for group in groups for use in group):
        old = found.get(use.name, DeviceUse(use.name, 0.0, 0))
        peak = max(old.peak_memory_bytes, use.peak_memory_bytes)
        found[use.name] = DeviceUse(use.name, old.busy_s + use.busy_s, peak)
    return tuple(found.values())


def _merge_links(groups: Iterable[Sequence[LinkUse]]) -> tuple[LinkUse, ...]:
    found: dict[tuple[str, str], LinkUse] = {}
    for use in (use for group in groups for use in group):
        pair = (use.source, use.target)
        old = found.get(pair, LinkUse(*pair, 0, 0.0))
        found[pair] = LinkUse(*pair, old.bytes + use.bytes, old.busy_s + use.busy_s)
    return tuple(found[pair] for pair in sorted(found))
