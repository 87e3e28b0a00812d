"""Ports that links share, from messages to several workers and from several."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from functools import partial
from itertools import permutations

import pytest
from tests.leader.fakes import FakeLab

from partita.execution import Link, LinkClocks, Port
from partita.leader.ports import PortSample, SharedRate, measure_port
from partita.worker.messages import (
    MAX_FLOWS,
    MessageFlow,
    MessageTimes,
    TimeMessages,
    decode_message,
)

RATE, LATENCY_S = 20e6, 1e-3
#: No thread is kept waiting for longer.
PATIENCE_S = 60.0


def links_of(names: Sequence[str], rate: float = RATE, **more: object) -> list[Link]:
    """All pairs, with 1 ms of latency."""
    return [Link(a, b, rate, LATENCY_S, **more) for a, b in permutations(names, 2)]  # type: ignore[arg-type]


def share_ports(links: Sequence[Link], rate: float) -> list[Link]:
    """The links when every device has a port of ``rate``."""
    return [
        Link(
            link.source,
            link.target,
            link.bandwidth_bytes_per_s,
            link.latency_s,
            ports=tuple(Port(name, rate) for name in (f"{link.source} out", f"{link.target} in")),
        )
        for link in links
    ]


class EmulatedLab(FakeLab):
    """Workers whose messages take as long as emulated links would take, on a clock of their own.

    Args:
        flows: How many are sent at the same time: who asks for less than all is kept waiting.
    """

    def __init__(self, names: Sequence[str], links: Sequence[Link], flows: int) -> None:
        super().__init__(*names)
        self._links, self._flows = links, flows
        self._asked: list[tuple[str, MessageFlow]] = []
        self._times: list[tuple[float, ...]] = []
        self._change = threading.Condition()
        for name, worker in self.workers.items():
            worker.answers["probe"] = partial(self._answer, name)

    def _answer(self, name: str, body: bytes) -> MessageTimes:
        flows = decode_message(body, TimeMessages).flows
        with self._change:
            first = len(self._asked)
            self._asked += [(name, flow) for flow in flows]
            if len(self._asked) % self._flows == 0:
                self._times += self._carry(self._asked[-self._flows :])
                self._change.notify_all()
            last = first + len(flows)
            assert self._change.wait_for(lambda: len(self._times) >= last, PATIENCE_S)
            return MessageTimes(tuple(self._times[first:last]))

    def _carry(self, flows: Sequence[tuple[str, MessageFlow]]) -> list[tuple[float, ...]]:
        """Per flow, the seconds of its messages, each of which is sent when the last is there."""
        clocks = LinkClocks({link.pair: link for link in self._links})
        times: list[list[float]] = [[] for _ in flows]
        due = [(0.0, number) for number in range(len(flows))]
        while due:
            now_s, number = heapq.heappop(due)
            source, flow = flows[number]
            clock = clocks.between(source, flow.target)
            known_s = clock.reserve(now_s, flow.size_bytes).arrive_s + clock.latency_s
            times[number].append(known_s - now_s)
            if len(times[number]) < flow.repeats:
                heapq.heappush(due, (known_s, number))
        return [tuple(seconds) for seconds in times]


@pytest.mark.parametrize(("port", "seen"), [(RATE, True), (1.5 * RATE, True), (10 * RATE, False)])
def test_a_shared_port_is_found_on_emulated_links(port: float, seen: bool) -> None:
    """In both directions, at its rate; a port that three links do not fill is not invented."""
    names = ("a", "b", "c", "d")
    links = links_of(names)
    lab = EmulatedLab(names, share_ports(links, port), flows=3)
    sample = measure_port(lab.leader, "b", links)
    assert sample.sends is not None
    assert sample.receives is not None
    if seen:
        assert sample.bytes_per_s == pytest.approx(port, rel=0.1)
        for way in (sample.sends, sample.receives):
            assert way.slowing == pytest.approx(3 * RATE / port, rel=0.1)
    else:
        assert sample.bytes_per_s is None


def fake_lab(names: Sequence[str], slowing: float) -> FakeLab:
    """Workers whose messages take so many times as long beside others as alone."""
    lab = FakeLab(*names)

    def answer(body: bytes) -> MessageTimes:
        flows = decode_message(body, TimeMessages).flows
        return MessageTimes(tuple(map(taken, flows)))

    def taken(flow: MessageFlow) -> tuple[float, ...]:
        return (slowing * (flow.size_bytes / RATE + 2 * LATENCY_S),) * flow.repeats

    for worker in lab.workers.values():
        worker.answers["probe"] = answer
    return lab


def flows_of(lab: FakeLab, name: str) -> tuple[MessageFlow, ...]:
    """What a worker was asked to send."""
    (body,) = lab.workers[name].bodies["probe"]
    return decode_message(body, TimeMessages).flows


def test_one_pair_says_nothing_of_a_port() -> None:
    """With two devices nothing is sent, and nothing is known."""
    lab = fake_lab(("a", "b"), 5.0)
    assert measure_port(lab.leader, "a", links_of(("a", "b"))) == PortSample("a", None, None)
    assert lab.workers["a"].seen == lab.workers["b"].seen == []


def test_links_of_one_radio_are_left_out() -> None:
    """That they share its airtime is known: a port would count it twice."""
    lab = fake_lab(("a", "b", "c"), 2.0)
    links = links_of(("a", "b", "c"), medium="wifi")
    assert measure_port(lab.leader, "a", links).bytes_per_s is None


def test_no_more_flows_than_a_worker_takes() -> None:
    """Of many links the fastest are tried: they fill a port first."""
    names = tuple(f"d{n}" for n in range(MAX_FLOWS + 3))
    lab = fake_lab(names, 1.0)
    links = [Link("d0", name, RATE * (1 + n)) for n, name in enumerate(names[1:])]
    assert measure_port(lab.leader, "d0", links).receives is None
    assert {flow.target for flow in flows_of(lab, "d0")} == set(names[3:])


def test_flows_of_unequal_links_last_about_as_long() -> None:
    """So all are there while the rate is taken."""
    lab = fake_lab(("a", "b", "c"), 1.0)
    links = [Link("a", "b", RATE), Link("a", "c", RATE / 4)]
    measure_port(lab.leader, "a", links)
    fast, slow = flows_of(lab, "a")
    assert fast.size_bytes == pytest.approx(4 * slow.size_bytes, rel=1e-3)


@pytest.mark.parametrize(("slowing", "limit"), [(1.2, None), (3.0, 9e6), (1.3, 20e6)])
def test_a_port_carries_what_one_link_alone_has_shown(slowing: float, limit: float | None) -> None:
    """Little slowing is the processor's; a limit below the fastest link contradicts it."""
    together = 20e6 if slowing < 2 else 8e6
    assert SharedRate(together, 9e6, slowing).limit_bytes_per_s == limit


def test_the_slower_direction_counts() -> None:
    """A file has one figure for both; a direction without a limit says nothing."""
    free, slow = SharedRate(3e7, 1e7, 1.0), SharedRate(1e7, 1e7, 3.0)
    assert PortSample("a", free, slow).bytes_per_s == 1e7
    assert PortSample("a", SharedRate(9e6, 8e6, 3.0), slow).bytes_per_s == 9e6
    assert PortSample("a", free, None).bytes_per_s is None
