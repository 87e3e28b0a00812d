"""Which staleness fits a cluster."""

from dataclasses import replace
from functools import partial

import pytest

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InputError
from partita.separable.advice import Advice, advise
from partita.separable.architecture import Architecture
from partita.separable.requirements import requirements

NETWORK = Architecture.parse("4x16d-20", groups=4)
PAPERS = "raspberry-pi-3b-plus"


def _advise(kind: str, rate: float, latency_s: float, devices: int = 4) -> Advice:
    boards = [Device(f"d{n}", kind=kind) for n in range(devices)]
    cluster = Cluster.of(boards, bandwidth_bytes_per_s=rate, latency_s=latency_s)
    make_cost = partial(CostModel, cluster=cluster)
    return advise(cluster, NETWORK, make_cost, budget_s=0.2)


def test_the_papers_board_needs_nothing_stale_by_its_figure() -> None:
    """But a message that is to be hidden needs a block behind it, which staleness 2 has."""
    advice = _advise(PAPERS, 37.5e6, 0.0)
    for need in advice.needs:
        assert need.macs_per_s <= 1.7e8
        assert (need.by_figure, need.hiding) == (1, 2)
        hardest = requirements(NETWORK)[0].least_staleness(need.macs_per_s, need.bits_per_s)
        assert need.message_s / need.block_s == pytest.approx(hardest)
    assert advice.best.staleness == 2
    assert advice.best.devices == ("d0", "d1", "d2", "d3")
    assert [one.staleness for one in advice.services] == [1, 2]
    first, second = advice.services
    assert second.least_bits_per_s == pytest.approx(first.least_bits_per_s / 2)
    assert second.byte_share == pytest.approx(first.byte_share / 2)
    assert [len(one.devices) for one in advice.shares] == [1, 2, 3, 4]
    worse = replace(advice, divided_s=2 * advice.best.latency_s, divided_by=("rows",))
    assert not worse.is_plain_as_good
    assert "the plain network divided by rows takes" in worse.words()[-1]
    assert worse.words()[-1].startswith("Retraining in 4 groups gains")


def test_latency_counts_where_blocks_are_short() -> None:
    """On fast links with 50 ms of latency nothing is hidden, and groups gain nothing."""
    advice = _advise("raspberry-pi-3", 125e6, 0.05, devices=2)
    assert {need.hiding for need in advice.needs} == {None}
    assert len(advice.best.devices) == 1
    assert advice.is_plain_as_good
    assert advice.words()[0].startswith("The groups are fastest all on d")
    assert "hide" not in " ".join(advice.words())
    assert any(line.startswith("Do not retrain for speed") for line in advice.words())


def test_groups_that_lie_together_gain_nothing() -> None:
    """However long the plain network takes."""
    advice = _advise("raspberry-pi-3", 125e6, 0.05, devices=2)
    slow = replace(advice, divided_s=2 * advice.best.latency_s)
    assert slow.is_plain_as_good
    assert slow.words()[-1].startswith("Do not retrain for speed")


def test_shares_are_of_the_fastest_devices_and_words_of_those_that_have_groups() -> None:
    """Whatever their order in the file: the slow board, which waits for nobody, has none."""
    boards = [Device("slow", kind=PAPERS)]
    boards += [Device(name, kind="raspberry-pi-3") for name in "ab"]
    cluster = Cluster.of(boards, bandwidth_bytes_per_s=1e9, latency_s=0.0)
    advice = advise(cluster, NETWORK, partial(CostModel, cluster=cluster), budget_s=0.2)
    assert [one.devices for one in advice.shares] == [("a",), ("a", "b"), ("a", "b", "slow")]
    assert advice.best.devices == ("a", "b")
    assert min(one.latency_s for one in advice.shares) >= advice.best.latency_s
    hiding = {need.device: need.hiding for need in advice.needs}
    needed = max(hiding[name] or 0 for name in ("a", "b"))
    changed = [
        replace(need, hiding=None) if need.device == "slow" else need for need in advice.needs
    ]
    words = replace(advice, needs=tuple(changed)).words()
    assert words[1] == f"Transfers are hidden from staleness {needed} on."


def test_there_must_be_something_to_place() -> None:
    """One device, or one group, is refused."""
    with pytest.raises(InputError, match="on 1 computing devices: there is nothing to place"):
        _advise(PAPERS, 1e6, 0.0, devices=1)
