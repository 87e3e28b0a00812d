"""Messages that go round all devices at the same time."""

import pytest

from partita.cluster import Cluster
from partita.execution import Durations
from partita.leader.relay import LEAST_HOPS, MESSAGE_BYTES, make_relay, relay_paths
from partita.program import Compute
from partita.program.check import check_program
from partita.simulation import simulate

NAMES = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("computes", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_relay_is_a_sound_program(count: int, computes: bool) -> None:
    """It feeds, delivers the whole input again, and cannot deadlock."""
    assert check_program(make_relay(relay_paths(NAMES[:count]), computes=computes)) == []


def test_a_computing_relay_runs_one_fragment_per_hop() -> None:
    """Whoever receives a message runs the fragment on it."""
    paths = relay_paths(NAMES[:3])
    program = make_relay(paths, computes=True)
    for part in program.devices:
        runs = [step for step in part.steps if isinstance(step, Compute)]
        assert len(runs) == sum(path[1:].count(part.device) for path in paths)


@pytest.mark.parametrize("count", [2, 4])
def test_messages_do_not_wait_for_each_other(count: int) -> None:
    """On equal links the longest path alone says how long it takes: what is beyond is messages'."""
    cluster = Cluster.of(NAMES[:count], bandwidth_bytes_per_s=1e6, latency_s=0.002)
    links = cluster.link_map
    paths = relay_paths(NAMES[:count])
    program = make_relay(paths)
    predicted_s = simulate(program, Durations({}, links=links)).latencies_s[0]
    hops = max(len(path) - 1 for path in paths)
    assert hops >= LEAST_HOPS
    assert predicted_s == pytest.approx(hops * (MESSAGE_BYTES / 1e6 + 0.002))
