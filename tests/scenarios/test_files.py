"""The shipped clusters say what the paper's tables say."""

from __future__ import annotations

from collections import Counter

import pytest

from partita.cluster import load_cluster
from partita.errors import ClusterError
from partita.scenarios import scenario_names

PI, NANO, TX2, XAVIER = "raspberry-pi-3", "jetson-nano", "jetson-tx2", "jetson-xavier"
NETWORKS = {"NA": [50, 50, 200, 200], "NB": [100, 100, 200, 200], "NC": [200, 200, 300, 300]}
NETWORKS["ND"] = [50, 100, 200, 300]
GROUPS = {"DA": [TX2, TX2, NANO, NANO], "DB": [XAVIER, XAVIER, NANO, NANO]}
GROUPS["DC"] = [XAVIER, TX2, NANO, PI]
#: Name: pairs of Mbit/s and kind, by Tables I to III of the DistrEdge paper.
EXPECTED = {
    **{
        f"{g}-{rate}": [(rate, k) for k in kinds]
        for g, kinds in GROUPS.items()
        for rate in (50, 300)
    },
    **{f"{g}-nano": [(rate, NANO) for rate in rates] for g, rates in NETWORKS.items()},
    **{f"{g}-xavier": [(rate, XAVIER) for rate in rates] for g, rates in NETWORKS.items()},
    "LA": 4 * [(300, NANO), (200, NANO), (100, NANO), (50, NANO)],
    "LB": 4 * [(300, PI), (200, NANO), (100, TX2), (50, XAVIER)],
    "LC": 4 * [(200, PI), (200, NANO), (200, TX2), (200, XAVIER)],
    "LD": 4 * [(50, PI), (100, NANO), (200, TX2), (300, XAVIER)],
    "homogeneous": 4 * [(200, NANO)],
    "dynamic": 4 * [(100, NANO)],
}


def test_every_scenario_is_expected() -> None:
    """There is a file for each group and case of the paper, and no other."""
    assert set(scenario_names()) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_devices_and_links_are_the_papers(name: str) -> None:
    """Providers have the table's kinds; each link has the lower throughput of its two ends."""
    cluster = load_cluster(f"scenario:{name}")
    providers = [cluster.device(each) for each in cluster.providers]
    rates = {}
    for device in providers:
        link = cluster.link(cluster.requester, device.name)
        assert link is not None
        rates[device.name] = link.bandwidth_bytes_per_s * 8 / 1e6
    assert Counter((rates[d.name], d.kind) for d in providers) == Counter(EXPECTED[name])
    assert cluster.requester not in cluster.providers
    for link in cluster.links:
        ends = [rates[end] for end in (link.source, link.target) if end in rates]
        assert link.bandwidth_bytes_per_s * 8 / 1e6 == pytest.approx(min(ends))
    assert len(cluster.links) == (len(providers) + 1) * len(providers)


def test_unknown_scenario_lists_the_known() -> None:
    """A name that is not there is bad input, and the message helps."""
    with pytest.raises(ClusterError, match=r"'DX' is unknown; there are: DA-300, .*homogeneous"):
        load_cluster("scenario:DX")


def test_capitals_do_not_matter() -> None:
    """Names are found however they are written."""
    assert load_cluster("scenario:db-50") == load_cluster("scenario:DB-50")
