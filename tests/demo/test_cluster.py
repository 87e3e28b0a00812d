from partita.demo.cluster import load_demo_cluster


def test_four_unequal_devices():
    """The camera asks, is the slowest, and reaches every helper at 200 Mbit/s."""
    cluster = load_demo_cluster()
    slowness = {device.name: device.slow_down for device in cluster.devices}
    assert cluster.requester == "camera"
    assert sorted(slowness.values()) == [8, 12, 16, 24]
    assert slowness["camera"] == 24
    assert len(cluster.links) == 12
    assert {link.bandwidth_bytes_per_s for link in cluster.links} == {25e6}
