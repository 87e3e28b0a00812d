"""The report of a run, from spans and totals that are made up."""

from __future__ import annotations

import pytest
from tests.leader.fakes import Deployed, FakeLab, gone, stats_of
from tests.worker.tiny import tiny_chain

from partita.execution import DeviceUse, QueueUse
from partita.leader.past_requests import PastRequest
from partita.leader.run_report import EpochLog, build_report
from partita.program import Compute, Program
from partita.report.tables import tabulate_devices
from partita.worker.messages import Clock, ComputeTotals, LaneQueue, SendTotals, WorkerSpan

PROGRAM = tiny_chain(2, 2).program
BY = ("hand", 3)


def request(
    index: int, start_s: float, end_s: float, *, epoch: int = 1, number: int = 0
) -> PastRequest:
    """A request that was answered."""
    return PastRequest(index, start_s, end_s, epoch, number, is_again=False)


def compute_of(program: Program, device: str) -> int:
    """The device's first step that computes."""
    return next(s.id for s in program.device(device).steps if isinstance(s, Compute))


def log(epoch: int, *spans: tuple[str, int, float, float]) -> EpochLog:
    """What devices wrote down of their computing: device, request, start and end."""
    by_device: dict[str, list[WorkerSpan]] = {"d0": [], "d1": []}
    for device, number, start_s, end_s in spans:
        step = compute_of(PROGRAM, device)
        by_device[device].append(WorkerSpan("compute", step, number, start_s, end_s))
    return EpochLog(epoch, PROGRAM, by_device, {name: stats_of() for name in by_device})


def test_times_are_the_runs_own() -> None:
    """Seconds and requests count from the first request of the run, whenever that was."""
    spans = log(1, ("d0", 7, 101.0, 102.0), ("d1", 8, 103.0, 103.5))
    requests = [request(5, 102.0, 104.0, number=8), request(4, 100.0, 103.0, number=7)]
    report = build_report([spans], requests, BY)
    assert (report.planner, report.seed) == BY
    assert report.latencies_s == (3.0, 2.0)
    assert report.makespan_s == 4.0
    assert [(span.request, span.start_s, span.end_s) for span in report.spans] == [
        (0, 1.0, 2.0),
        (1, 3.0, 3.5),
    ]
    assert {use.name: use.busy_s for use in report.devices}["d0"] == 1.0


def test_spans_of_other_requests_are_left_out() -> None:
    """Loads, earlier runs and unanswered requests are no part of the run."""
    spans = log(1, ("d0", -1, 90.0, 91.0), ("d0", 6, 99.0, 99.5), ("d0", 7, 100.0, 100.25))
    report = build_report([spans], [request(0, 100.0, 101.0, number=7)], BY)
    assert len(report.spans) == 1
    assert {use.name: use.busy_s for use in report.devices}["d0"] == 0.25


def test_epochs_of_one_run_are_one_report() -> None:
    """The same number under another epoch is another request; busy seconds add up."""
    logs = [log(1, ("d0", 0, 100.0, 101.0)), log(2, ("d0", 0, 105.0, 107.0))]
    requests = [request(0, 100.0, 102.0, epoch=1), request(1, 104.0, 108.0, epoch=2)]
    report = build_report(logs, requests, BY)
    assert sorted(span.request for span in report.spans) == [0, 1]
    (use,) = (use for use in report.devices if use.name == "d0")
    assert use.busy_s == 3.0
    assert report.makespan_s == 8.0


def test_without_spans_totals_are_reported() -> None:
    """Links to the leader are no links of the plan; memory is the process's where it is known."""
    stats = {
        "d0": stats_of(
            busy_s=2.0,
            weight_bytes=100,
            peak_piece_bytes=50,
            sent=(SendTotals("d1", 40, 0.5), SendTotals("leader", 8, 0.1)),
        ),
        "d1": stats_of(),
    }
    report = build_report([EpochLog(1, PROGRAM, None, stats)], [request(0, 1.0, 2.0)], BY)
    assert report.spans == ()
    use = next(use for use in report.devices if use.name == "d0")
    assert (use.busy_s, use.peak_memory_bytes) == (2.0, 150)
    ((link,),) = (report.links,)
    assert (link.source, link.target, link.bytes, link.busy_s) == ("d0", "d1", 40, 0.5)
    stats["d0"] = stats_of(resident_bytes=700, weight_bytes=100)
    report = build_report([EpochLog(1, PROGRAM, None, stats)], [request(0, 1.0, 2.0)], BY)
    assert next(use for use in report.devices if use.name == "d0").peak_memory_bytes == 700


@pytest.mark.parametrize("trace", [True, False])
def test_queues_and_step_times_come_from_the_workers(trace: bool) -> None:
    """Queues of epochs add up; step times are the run's own where there are spans."""
    step = compute_of(PROGRAM, "d0")
    stats = {
        "d0": stats_of(
            queues=(LaneQueue("compute", (3, 1)), LaneQueue("deliver", (0, 0))),
            worked=(ComputeTotals(step, 9, 4.5, 0.5, 0.6, 0.7),),
        )
    }
    spans = {"d0": [WorkerSpan("compute", step, 0, 1.0, 3.0)]} if trace else None
    logs = [EpochLog(epoch, PROGRAM, spans, stats) for epoch in (1, 2)]
    report = build_report(logs, [request(0, 1.0, 4.0)], BY)
    assert report.queues == (QueueUse("d0", "compute", (6, 2)),)
    counts = [(use.device, use.step, use.count) for use in report.steps]
    if trace:
        assert counts == [("d0", step, 1)]
        assert report.steps[0].p99_s == pytest.approx(2.0, rel=0.02)
    else:
        assert counts == [("d0", step, 9)] * 2
        assert report.steps[0].p99_s == 0.7


@pytest.mark.parametrize("trace", [True, False])
def test_a_worker_that_is_lost_leaves_a_gap(trace: bool) -> None:
    """The rest is fetched, on the leader's clock; idle workers are not asked at all."""
    lab = FakeLab("d0", "d1", "idle")
    lab.workers["d1"].answers["stats"] = lambda body: gone("d1")
    lab.workers["d0"].answers["clock"] = lambda body: Clock(-1e9)
    lab.workers["d0"].spans = [WorkerSpan("compute", 0, 0, -1e9, -1e9 + 1)]
    fetched = EpochLog.fetch(lab.group, Deployed(lab, PROGRAM), trace)  # type: ignore[arg-type]
    assert set(fetched.stats) == {"d0"}
    assert lab.workers["idle"].seen == []
    if trace:
        assert fetched.spans is not None
        (span,) = fetched.spans["d0"]
        assert span.start_s > 0
        assert span.end_s - span.start_s == pytest.approx(1.0)
    else:
        assert fetched.spans is None


@pytest.mark.parametrize("trace", [True, False])
def test_of_a_device_that_is_lost_nothing_is_known(trace: bool) -> None:
    """It was not idle and held memory: nobody knows how busy it was, or what it sent."""
    spans = [WorkerSpan("compute", compute_of(PROGRAM, "d0"), 0, 1.0, 3.0)]
    told = EpochLog(1, PROGRAM, {"d0": spans} if trace else None, {"d0": stats_of(busy_s=2.0)})
    report = build_report([told], [request(0, 1.0, 4.0)], BY)
    uses = {use.name: use for use in report.devices}
    assert uses["d0"].busy_s == pytest.approx(2.0)
    assert uses["d1"] == DeviceUse("d1", None, None)
    assert {use.source for use in report.links} <= {"d0"}
    rows = {row[0]: row[1:] for row in tabulate_devices(None, report).rows}
    assert set(rows["d1"]) == {"–"}
    later = log(2, ("d1", 0, 105.0, 107.0))
    both = build_report(
        [told, later], [request(0, 1.0, 4.0), request(1, 104.0, 108.0, epoch=2)], BY
    )
    assert {use.name: use.busy_s for use in both.devices}["d1"] == 2.0


def test_links_of_unpaced_devices_have_no_busy_seconds() -> None:
    """Their sends end when the system has the bytes, not when the other end has."""
    report = build_report([log(1)], [request(0, 0.0, 1.0)], BY, {"d0"})
    busy = {(use.source, use.target): use.busy_s for use in report.links}
    assert busy
    assert all((seconds is None) == (source == "d0") for (source, _), seconds in busy.items())
