"""Time in transmission is read off the spans as the paper measures it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.cluster import Cluster, Device, Link
from partita.execution import DeviceUse, Report, Span
from partita.reproduce.lanes import compute_times, cover_s, transmission_times

_POINTS = st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1]))


@given(st.lists(_POINTS, max_size=8))
def test_cover_is_the_number_of_covered_units(intervals: list[tuple[int, int]]) -> None:
    """The length of a union equals the count of unit steps that some interval covers."""
    covered = {step for start, stop in intervals for step in range(start, stop)}
    assert cover_s(intervals) == len(covered)


def _report() -> Report:
    spans = (
        Span("phone", "send:a", 0, "x", 0, 0.0, 2.0),
        Span("phone", "send:b", 1, "x", 0, 1.0, 4.0),
        Span("a", "compute", 2, "s", 0, 2.5, 6.0),
        Span("a", "send:b", 3, "y", 0, 6.0, 7.0),
        Span("b", "send:phone", 4, "z", 0, 9.0, 9.5),
    )
    uses = (DeviceUse("a", 3.5, 0), DeviceUse("phone", 0.0, 0))
    return Report("", 0, (10.0,), 10.0, uses, (), spans)


def test_pieces_count_until_they_arrive_and_once() -> None:
    """Providers' pieces to and from count with the link's latency; overlaps count once."""
    pairs = [("phone", "a"), ("phone", "b"), ("a", "b"), ("b", "phone")]
    links = [Link(source, target, 1.0, latency_s=0.5) for source, target in pairs]
    devices = [Device("phone", computes=False), Device("a"), Device("b")]
    cluster = Cluster.of(devices, links=links)
    assert transmission_times(_report(), cluster) == {"a": 2.5 + 1.5, "b": 3.5 + 1.5 + 1.0}


def test_providers_without_work_compute_nothing() -> None:
    """Each provider has a number, the requester none."""
    assert compute_times(_report(), ("a", "b")) == {"a": 3.5, "b": 0.0}
