"""Ports that links share, from messages to several workers and from several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest
from tests.leader.fakes import FakeLab
from tests.memory_lab import memory_lab

from partita.cluster import Device
from partita.execution import Link, Port
from partita.leader.ports import PortSample, SharedRate, measure_port
from partita.worker.messages import (
    MAX_FLOWS,
    MessageFlow,
    MessageTimes,
    TimeMessages,
    decode_message,
)

RATE = 20e6


def links_of(names: Sequence[str], rate: float = RATE, **more: object) -> list[Link]:
    """All pairs, with 1 ms of latency."""
    return [Link(a, b, rate, 1e-3, **more) for a, b in permutations(names, 2)]  # type: ignore[arg-type]


def share_ports(links: Sequence[Link], folder: Path, rate: float) -> list[Link]:
    """The links when every device has a port of ``rate``, kept in files."""
    return [
        Link(
            link.source,
            link.target,
            link.bandwidth_bytes_per_s,
            link.latency_s,
            ports=tuple(
                Port(str(folder / name), rate)
                for name in (f"{link.source} out", f"{link.target} in")
            ),
        )
        for link in links
    ]


@pytest.mark.parametrize(("port", "seen"), [(RATE, True), (1.5 * RATE, True), (10 * RATE, False)])
def test_a_shared_port_is_found_on_emulated_links(port: float, seen: bool, tmp_path: Path) -> None:
    """In both directions, at its rate; a port that three links do not fill is not invented."""
    names = ("a", "b", "c", "d")
    links = links_of(names)
    with memory_lab(map(Device, names), links=share_ports(links, tmp_path, port)) as lab:
        sample = measure_port(lab.endpoint, "b", links)
    assert sample.sends is not None
    assert sample.receives is not None
    if seen:
        assert sample.bytes_per_s == pytest.approx(port, rel=0.2)
        for way in (sample.sends, sample.receives):
            assert way.slowing == pytest.approx(3 * RATE / port, rel=0.25)
    else:
        assert sample.bytes_per_s is None


def fake_lab(names: Sequence[str], slowing: float) -> FakeLab:
    """Workers whose messages take so many times as long beside others as alone."""
    lab = FakeLab(*names)

    def answer(body: bytes) -> MessageTimes:
        flows = decode_message(body, TimeMessages).flows
        return MessageTimes(tuple(map(taken, flows)))

    def taken(flow: MessageFlow) -> tuple[float, ...]:
        return (slowing * (flow.size_bytes / RATE + 2e-3),) * flow.repeats

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
