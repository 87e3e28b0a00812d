"""The simulation against figures worked out by hand."""

from __future__ import annotations

import pytest
from tests.program_builder import ProgramBuilder, chain

from partita.errors import PlanError, RunError
from partita.execution import Durations, Link
from partita.program import Compute, Load, Program, Receive, Send
from partita.simulation import latency_s, simulate


def all_links(program: Program, spec: Link) -> dict[tuple[str, str], Link]:
    """Return the same link between all devices."""
    names = [part.device for part in program.devices]
    return {(a, b): spec for a in names for b in names if a != b}


def times(program: Program, kind: type, seconds: float) -> dict[int, float]:
    """Return the same duration for every step of a kind."""
    return {s.id: seconds for part in program.devices for s in part.steps if isinstance(s, kind)}


def unit_durations(program: Program, spec: Link | None = None) -> Durations:
    """Return one second for each compute, and links that cost nothing unless given."""
    links = all_links(program, spec or Link("a", "b", float("inf")))
    return Durations(times(program, Compute, 1.0), links=links)


def skip_program(credit: int) -> Program:
    """Return three stages on three devices, the first also read by the third, eight in flight."""
    build = ProgramBuilder(3, in_flight=8)
    first = build.compute("d0", [[build.feed()]], "a")
    second = build.compute("d1", [[build.send(first, "d1", credit=8)]], "b")
    reads = [[build.send(second, "d2", credit=8)], [build.send(first, "d2", credit=credit)]]
    build.deliver([[build.send(build.compute("d2", reads, "c"), "d0", credit=8)]])
    return build.build()


def test_latency_is_the_sum_along_a_chain() -> None:
    """Two stages and back: 0.3 feed, 2 x 1 compute, 2 x (0.1 encode, 0.2 + 16/64 link, 0.5 way,
    0.05 decode), 0.4 deliver; 16 bytes at 64 B/s."""
    program = chain(2, 2)
    durations = Durations(
        times(program, Compute, 1.0),
        times(program, Receive, 0.05),
        times(program, Send, 0.1),
        deliver_s=0.4,
        feed_s=0.1,
        admit_s=0.2,
        links=all_links(program, Link("a", "b", 64.0, 0.5, 0.2)),
    )
    expected = 0.3 + 2 * 1 + 2 * (0.1 + 0.2 + 0.25 + 0.5 + 0.05) + 0.4
    report = simulate(program, durations)
    assert report.latencies_s == pytest.approx([expected])
    assert report.makespan_s == pytest.approx(expected)
    assert [link.busy_s for link in report.links] == pytest.approx([0.55, 0.55])
    assert [link.bytes for link in report.links] == [16, 16]


def test_one_at_a_time_feeds_after_the_last_answer() -> None:
    """Sequential requests take the same latency, and the makespan is their sum."""
    program = chain(3, 3, in_flight=4, credit=4)
    report = simulate(program, unit_durations(program), requests=5, in_flight=1)
    assert report.latencies_s == (3.0,) * 5
    assert report.makespan_s == 15.0


def test_pipeline_gives_one_answer_per_bottleneck() -> None:
    """Three stages of 1 s in a full pipeline: the first answer after 3 s, then one per second."""
    program = chain(3, 3, in_flight=4, credit=4)
    report = simulate(program, unit_durations(program), requests=10)
    assert report.makespan_s == 12.0


@pytest.mark.parametrize(("credit", "expected_s"), [(1, 2.0), (2, 1.0)])
def test_credit_one_halves_throughput_on_a_skip(credit: int, expected_s: float) -> None:
    """With one credit, 0.5 s of sending, 0.25 s there, 1 s of the reader and 0.25 s for the credit
    follow each other; with two, they overlap and the 1 s stages are the bottleneck."""
    program = skip_program(credit)
    durations = unit_durations(program, Link("a", "b", 32.0, 0.25))
    few = simulate(program, durations, requests=20, keep_spans=False).makespan_s
    many = simulate(program, durations, requests=60, keep_spans=False).makespan_s
    assert (many - few) / 40 == pytest.approx(expected_s)


def test_links_of_one_medium_wait_for_each_other() -> None:
    """Two 1 s transfers to two devices take 1 s apart, 2 s on one medium, in order of readiness."""
    build = ProgramBuilder(3)
    piece = build.feed()
    parts = [
        build.compute(name, [[build.send(piece, name)]], "t", box=box)
        for name, box in (("d1", (0, 2)), ("d2", (2, 4)))
    ]
    build.deliver([[build.send(part, "d0") for part in parts]])
    program = build.build()
    apart = Link("a", "b", 16.0)
    shared = Link("a", "b", 16.0, medium="radio")
    # Input 16 B each way: 1 s; results 8 B: 0.5 s each.
    assert latency_s(program, unit_durations(program, apart)) == 1 + 1 + 0.5
    # d1 has its input at 1 s, d2 at 2 s; d1's result goes at 2 s, d2's at 3 s.
    assert latency_s(program, unit_durations(program, shared)) == 3.5


def test_slow_encoder_does_not_hold_the_medium() -> None:
    """A piece that is ready first goes first, though the other lane began to encode before."""
    build = ProgramBuilder(3)
    first, second = build.feed("a"), build.feed("b")
    copies = build.send(first, "d1"), build.send(second, "d2")
    parts = [build.compute(copy.device, [[copy]], f"t{copy.device}") for copy in copies]
    build.deliver([[build.send(part, "d0")] for part in parts])
    program = build.build()
    slow, _ = (s.id for s in program.device("d0").steps if isinstance(s, Send))
    durations = Durations(
        times(program, Compute, 1.0),
        encode_s={slow: 0.5},
        links=all_links(program, Link("a", "b", 16.0, medium="radio")),
    )
    spans = [s for s in simulate(program, durations).spans if s.lane.startswith("send:d")]
    ends = {s.lane: s.end_s for s in spans if s.device == "d0"}
    assert ends == {"send:d2": 1.0, "send:d1": 2.0}


def test_cold_start_loads_while_computing() -> None:
    """Loads of 2 s each run one after the other beside the computation: 2 + 2 + 1 s."""
    build = ProgramBuilder(1)
    piece = build.compute("d0", [[build.feed()]], "a")
    build.deliver([[build.compute("d0", [[piece]], "b")]])
    made = build.build()
    part = made.device("d0")
    loads = [s for s in part.steps if isinstance(s, Load)][::-1]
    steps = (*loads, *(s for s in part.steps if not isinstance(s, Load)))
    program = Program(
        "", "", "d0", made.inputs, made.outputs, (), made.fragments,
        (type(part)("d0", steps, part.buffers),),
    )  # fmt: skip
    durations = Durations(times(program, Compute, 1.0), load_s=times(program, Load, 2.0))
    assert simulate(program, durations).latencies_s == (2.0,)
    assert simulate(program, durations, cold=True).latencies_s == (5.0,)


def test_arrivals_count_the_wait() -> None:
    """Inputs at 0 s and 0.5 s, 1 s each, one at a time: the second waits half a second."""
    program = chain(1, 1)
    report = simulate(program, unit_durations(program), requests=3, arrivals=[0.0, 0.5, 5.0])
    assert report.latencies_s == (1.0, 1.5, 1.0)
    assert report.makespan_s == 6.0


def test_peak_memory_counts_weights_and_live_pieces() -> None:
    """Two stages of 100 B on one device; at most input and one result of 16 B live together."""
    program = chain(2, 1)
    report = simulate(program, unit_durations(program))
    assert report.devices[0].peak_memory_bytes == 200 + 32


def test_replicas_share_the_requests() -> None:
    """Two replicas of a 1 s stage answer twice as often as one."""
    build = ProgramBuilder(3, in_flight=4, routes=(2,))
    piece = build.feed()
    results = []
    for choice, name in enumerate(("d1", "d2")):
        when = ((0, choice),)
        copy = build.send(piece, name, credit=4, when=when)
        part = build.compute(name, [[copy]], "t", when=when)
        results.append(build.send(part, "d0", credit=4))
    build.deliver([results])
    program = build.build()
    report = simulate(program, unit_durations(program), requests=10)
    assert report.makespan_s == 5.0
    assert [use.busy_s for use in report.devices] == [0.0, 5.0, 5.0]


def test_queues_and_step_times_are_reported() -> None:
    """Three requests at once on a device: the first finds nobody; every run takes a second."""
    program = chain(1, 1, in_flight=3)
    report = simulate(program, unit_durations(program), requests=6)
    queues = {(use.device, use.lane): use.found[:3] for use in report.queues}
    assert queues == {("d0", "compute"): (1, 1, 4), ("d0", "deliver"): (6, 0, 0)}
    (step,) = report.steps
    assert (step.device, step.label, step.count) == ("d0", "make t0", 6)
    assert [step.p50_s, step.p90_s, step.p99_s] == pytest.approx([1.0] * 3, rel=0.02)


def test_program_that_cannot_finish_names_who_waits() -> None:
    """A device that never gets its piece ends in an error with device, step and request."""
    whole = chain(2, 2)
    broken = [
        type(part)(
            part.device,
            tuple(s for s in part.steps if not (isinstance(s, Send) and part.device == "d1")),
            part.buffers,
        )
        for part in whole.devices
    ]
    program = Program(
        "", "", "d0", whole.inputs, whole.outputs, whole.streams, whole.fragments, tuple(broken)
    )
    with pytest.raises(RunError, match="'d1' to send") as caught:
        simulate(program, unit_durations(program))
    assert (caught.value.device, caught.value.request) == ("d0", 0)
    with pytest.raises(RunError, match="never delivers"):
        latency_s(program, unit_durations(program))


def test_missing_link_is_named() -> None:
    """Sending where the cluster has no link is an error of the plan."""
    program = chain(2, 2)
    durations = Durations(times(program, Compute, 1.0))
    for run in (simulate, latency_s):
        with pytest.raises(PlanError, match="'d0' to 'd1'"):
            run(program, durations)


@pytest.mark.parametrize(("requests", "arrivals"), [(0, None), (2, [0.0])])
def test_wrong_counts_are_refused(requests: int, arrivals: list[float] | None) -> None:
    """No requests, or arrivals for other than the requests, are errors."""
    program = chain(1, 1)
    with pytest.raises(ValueError, match="at least 1"):
        simulate(program, unit_durations(program), requests=requests, arrivals=arrivals)
