"""The catalogue of known devices."""

from __future__ import annotations

import pytest

from partita.cluster import catalogue_names, find_entry, load_catalogue, load_cluster
from partita.errors import ClusterError


def test_all_devices_of_the_papers_and_todays_boards_are_known() -> None:
    """The kinds that plans are made for exist under these names."""
    assert set(catalogue_names()) == {
        "raspberry-pi-3",
        "raspberry-pi-3-keras",
        "raspberry-pi-3b-plus",
        "raspberry-pi-4",
        "raspberry-pi-5",
        "raspberry-pi-zero-2",
        "orange-pi-5",
        "rock-5b",
        "khadas-vim3",
        "beaglebone-ai-64",
        "cortex-a57",
        "jetson-nano",
        "jetson-tx2",
        "jetson-xavier",
        "jetson-orin-nano",
        "jetson-agx-orin",
        "phone",
        "laptop",
        "cloud-gpu",
        "eyeriss",
        "tpu-v1",
    }


@pytest.mark.parametrize("kind", catalogue_names())
def test_every_figure_has_a_source_and_a_range(kind: str) -> None:
    """Rates are positive, shares are shares; what was not measured is called an estimate first."""
    entry = load_catalogue()[kind]
    assert entry.source
    assert bool(entry.benchmarks) != entry.source.startswith("estimate")
    assert all(item.source and item.seconds > 0 for item in entry.benchmarks)
    assert all(rate > 0 for rate in entry.peak_macs_per_s.values())
    for share in (entry.efficiency, entry.depthwise_efficiency, entry.bandwidth_efficiency):
        assert 0 < share <= 1
    assert 0 < entry.winograd_efficiency <= 2.25
    assert 0 < entry.watts_idle < entry.watts_busy


def test_devices_are_ordered_as_published() -> None:
    """The papers' order Pi 3 < Pi 4 < Nano < TX2 < Xavier holds for VGG-16."""
    kinds = ("raspberry-pi-3", "raspberry-pi-4", "jetson-nano", "jetson-tx2", "jetson-xavier")
    seconds = [
        next(item.seconds for item in find_entry(kind).benchmarks if item.model == "vgg16")
        for kind in kinds
    ]
    assert seconds == sorted(seconds, reverse=True)


def test_boards_with_memory_cards_swap_slowly() -> None:
    """Only boards whose system is on a card have a swap rate, far below any memory's."""
    rates = {k: e.swap_bytes_per_s for k, e in load_catalogue().items() if e.swap_bytes_per_s}
    assert {"raspberry-pi-3", "raspberry-pi-3-keras", "raspberry-pi-5"} <= set(rates)
    assert all(rate < 0.01 * find_entry(kind).memory_bytes_per_s for kind, rate in rates.items())


def test_unknown_kind_lists_the_known() -> None:
    """An unknown kind is refused with the names that exist."""
    with pytest.raises(ClusterError, match=r"'pc' is not in the catalogue: known are raspberry"):
        find_entry("pc")


def test_a_kind_may_have_a_port() -> None:
    """The paper's board sends 300 Mbit/s in all, unless its entry says another rate."""
    link = {"between": ["a", "b"], "bandwidth": "1 Gbit/s"}
    board = {"name": "a", "kind": "raspberry-pi-3b-plus"}
    other = {**board, "name": "b", "port": "100 Mbit/s"}
    cluster = load_cluster(
        {"device": [board, other], "cluster": {"requester": "a"}, "link": [link]}
    )
    assert [device.port_bytes_per_s for device in cluster.devices] == [37.5e6, 12.5e6]
