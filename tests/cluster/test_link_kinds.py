"""Links by name: their rates in both directions, and what a file may say of them."""

from __future__ import annotations

import pytest

from partita.cluster import load_cluster
from partita.cluster.link_kinds import load_link_kinds
from partita.cost import CostModel
from partita.errors import ClusterError
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region
from partita.simulation import latency_s
from partita.units import parse_quantity
from tests.cost.fakes import conv_graph

DEVICES = """
[cluster]
requester = "camera"
[[device]]
name = "camera"
kind = "eyeriss"
[[device]]
name = "second"
kind = "eyeriss"
[[device]]
name = "cloud"
kind = "tpu-v1"
"""


def load(links: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return Mbit/s and seconds of each link."""
    cluster = load_cluster((DEVICES + links).encode())
    return {
        link.pair: (link.bandwidth_bytes_per_s * 8e-6, link.latency_s) for link in cluster.links
    }


@pytest.mark.parametrize("name", load_link_kinds())
def test_every_kind_has_a_source_and_a_range(name: str) -> None:
    """Rates up lie where the paper looks (1 to 20 Mbit/s), none is higher up than down."""
    kind = load_link_kinds()[name]
    up, down = (parse_quantity(rate, "bandwidth") * 8e-6 for rate in (kind.up, kind.down))
    assert 1 <= up <= 20
    assert up <= down
    assert 0 < parse_quantity(kind.latency, "time") < 0.1
    assert "up:" in kind.source or "rates:" in kind.source
    assert "latency:" in kind.source


def test_the_first_end_sends_up() -> None:
    """`between = [camera, cloud]`: the camera hangs on the network; both ways have the latency."""
    links = load('[[link]]\nbetween = ["camera", "cloud"]\nkind = "3G"')
    assert links == {
        ("camera", "cloud"): (pytest.approx(1.1), 0.05),
        ("cloud", "camera"): (pytest.approx(4.4), 0.05),
    }


def test_one_end_may_be_everybody() -> None:
    """Every device hangs on Wi-Fi; what a table says itself overrides its kind."""
    links = load('[[link]]\nbetween = ["*", "cloud"]\nkind = "4G"\nlatency = "1 ms"')
    assert links["camera", "cloud"] == links["second", "cloud"] == (pytest.approx(6.3), 0.001)
    assert links["cloud", "camera"] == (pytest.approx(21.3), 0.001)
    assert ("camera", "second") not in links


def test_later_tables_override_kinds_and_kinds_them() -> None:
    """Key by key, as other tables do."""
    slow = '[[link]]\nbetween = ["*", "*"]\nbandwidth = "1 Gbit/s"\nper_message = "1 ms"\n'
    named = '[[link]]\nbetween = ["camera", "cloud"]\nkind = "5G"\n'
    one_way = '[[link]]\nfrom = "cloud"\nto = "camera"\nbandwidth = "2 Mbit/s"\n'
    links = load(slow + named + one_way)
    assert links["camera", "cloud"] == (pytest.approx(17.9), 0.015)
    assert links["cloud", "camera"] == (pytest.approx(2.0), 0.015)
    assert links["camera", "second"] == (pytest.approx(1000.0), 0.0)


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        ('between = ["camera", "cloud"]\nkind = "6G"', "'6G' is unknown; known are BLE, 3G, 4G"),
        ('between = ["*", "*"]\nkind = "3G"', "'3G' needs between = [a, b] with one of both"),
        ('from = "camera"\nto = "cloud"\nkind = "3G"', "'3G' needs between = [a, b] with one"),
    ],
)
def test_wrong_kinds_are_refused(table: str, rule: str) -> None:
    """An unknown kind, and one of which nobody knows whose uplink it is."""
    with pytest.raises(ClusterError, match=r"link\[0\]\.kind: ") as caught:
        load(f"[[link]]\n{table}")
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("size_bytes", "milliseconds"),
    [
        (3 * 224**2, 401.4),
        (3 * 416**2, 1384.4),
        (2048 * 7 * 7, 267.6),
        (2048 * 7 * 7 // 2, 133.8),
        (2048 * 7 * 7 // 4, 66.9),
        (2048 * 7 * 7 // 8, 33.5),
    ],
)
def test_uploads_at_the_papers_rate(size_bytes: int, milliseconds: float) -> None:
    """At 3 Mbit/s: images of 8 bits, and ResNet-50's last maps at 8, 4, 2 and 1 bit."""
    link = '[[link]]\nbetween = ["camera", "cloud"]\nbandwidth = "3 Mbit/s"'
    cluster = load_cluster((DEVICES + link).encode())
    seconds = cluster.link_map["camera", "cloud"].message_s(size_bytes)
    assert round(1000 * seconds, 1) == pytest.approx(milliseconds, abs=0.051)


def test_the_way_back_of_the_answer_counts() -> None:
    """All in the cloud: the image goes up, the answer comes down, each at its own rate."""
    graph = conv_graph()
    link = '[[link]]\nbetween = ["camera", "cloud"]\nkind = "3G"'
    cluster = load_cluster((DEVICES + link).encode())
    (output,) = graph.outputs
    shard = Shard("cloud", {output: Region.full(graph.tensors[output].shape)})
    plan = Plan(
        Identity(graph.name, graph.hash),
        Identity(cluster.name, cluster.hash),
        (Stage("s0", tuple(layer.name for layer in graph.layers), "none", (shard,)),),
        planner="hand",
    )
    cost = CostModel(graph, cluster)
    layout = cost.layout(plan)
    size_bytes = 4 * 4 * 16 * 16  # of the image and of the answer
    wanted_s = 8 * size_bytes / 1.1e6 + 8 * size_bytes / 4.4e6 + 2 * 0.05
    wanted_s += cost.busy_s(layout)["cloud"]
    assert latency_s(layout.program, cost.price(layout)) == pytest.approx(wanted_s)
