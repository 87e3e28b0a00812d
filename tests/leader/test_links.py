"""Costs of links, from round trips that are told beforehand."""

from __future__ import annotations

import pytest
from tests.leader.fakes import FakeLab
from tests.memory_lab import memory_lab

from partita.cluster import Device
from partita.errors import InputError, RunError
from partita.leader import measure_link
from partita.leader.links import measure_rate
from partita.worker.messages import MessageTimes, TimeMessages, decode_message


def test_a_link_is_measured_between_two_workers() -> None:
    """Every size gets a sample with the asked count."""
    with memory_lab([Device("a"), Device("b")]) as lab:
        samples = measure_link(lab.endpoint, "a", "b", [10, 100_000], repeats=4)
    assert [(s.size_bytes, s.count) for s in samples] == [(10, 4), (100_000, 4)]
    assert all(sample.spread_s >= 0 for sample in samples)


def link(times: dict[int, tuple[float, ...]]) -> FakeLab:
    """A worker a whose messages to b take the given times per size, at most as many as asked."""
    lab = FakeLab("a", "b")

    def answer(body: bytes) -> MessageTimes:
        (flow,) = decode_message(body, TimeMessages).flows
        assert flow.target == "b"
        return MessageTimes((times[flow.size_bytes][: flow.repeats],))

    lab.workers["a"].answers["probe"] = answer
    return lab


def test_the_way_back_is_taken_off() -> None:
    """Half of the quickest empty round trip is the acknowledgement's; the median is what counts."""
    lab = link({0: (0.5, 0.2, 0.4, 0.4), 1000: (1.1, 1.3, 9.1)})
    (sample,) = measure_link(lab.leader, "a", "b", [1000], repeats=3)
    assert sample.seconds == pytest.approx(1.3 - 0.1)
    assert sample.spread_s == pytest.approx(8.0)
    assert (sample.size_bytes, sample.count) == (1000, 3)


def test_as_many_messages_as_a_worker_takes_are_timed() -> None:
    """The empty ones, of which there are twice as many, are no more than that either."""
    lab = link({0: (0.2,) * 2000, 10: (1.1,) * 2000})
    (sample,) = measure_link(lab.leader, "a", "b", [10], repeats=1000)
    assert sample.count == 1000


@pytest.mark.parametrize(
    ("repeats", "size", "told"),
    [
        (1001, 10, "1001 repeats: allowed are 2 to 1000"),
        (1, 10, "1 repeats: allowed are 2 to 1000"),
        (5, -1, "-1 bytes per message: allowed are 0 to 67108864"),
    ],
)
def test_what_no_worker_would_time_is_refused(repeats: int, size: int, told: str) -> None:
    """Nothing is asked of the worker, whose words would be about another version."""
    lab = link({})
    with pytest.raises(InputError, match=told):
        measure_link(lab.leader, "a", "b", [size], repeats=repeats)
    assert not lab.workers["a"].seen


def test_a_rate_is_what_a_full_message_takes_beyond_an_empty_one() -> None:
    """Latency and fixed costs are in both; on a link of no time the rate stays finite."""
    assert measure_rate(link({0: (0.3, 0.2), 500: (0.7,)}).leader, "a", "b", 500) == pytest.approx(
        1000
    )
    assert measure_rate(link({0: (0.3, 0.2), 500: (0.1,)}).leader, "a", "b", 500) == pytest.approx(
        5e8
    )


@pytest.mark.parametrize(("source", "target"), [("a", "c"), ("c", "b")])
def test_a_worker_that_is_not_there_is_named_at_once(source: str, target: str) -> None:
    """Nothing is sent, and nobody waits for it to come."""
    lab = link({})
    with pytest.raises(RunError, match=r"'c' cannot be reached.* alive are: a, b"):
        measure_link(lab.leader, source, target, [1000])
    assert lab.workers["a"].seen == []
