"""What compressing costs: packing, then what is done to the packed bytes."""

from __future__ import annotations

import msgspec
import pytest
from onnx import TensorProto

from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import ClusterError
from partita.planners import PlanOptions, find_plan
from partita.profile import WireCost
from tests.cost.fakes import conv_graph, photo_graph, straight_profile

ZLIB = WireCost(1e-4, 1e-7, 2e-4, 2e-7)
JPEG = WireCost(1e-3, 3e-7, 1e-3, 4e-7)
LINEAR = WireCost(0.0, 1e-3, 0.0, 1e-3)


def make_cost(wires: dict[str, WireCost], slow_down: float = 1.0) -> CostModel:
    """Return the costs of one device whose profile has wires beside those of the fake."""
    graph = conv_graph()
    profile = straight_profile(graph)
    profile = msgspec.structs.replace(profile, wires={**profile.wires, **wires})
    return CostModel(graph, Cluster.of([Device("d", slow_down=slow_down)]), profiles=profile)


def test_compressing_is_priced_on_top_of_packing() -> None:
    """Of 4000 bytes of floats 1000 bytes of codes are compressed; pictures are one work."""
    cost = make_cost({"zlib": ZLIB, "jpeg60": JPEG}, slow_down=2.0)
    packing = cost.encode_s("d", "codes8", 4000)
    assert cost.encode_s("d", "codes8+zlib@0.5", 4000) == pytest.approx(packing + 2 * 2e-4)
    assert cost.decode_s("d", "codes8+zlib", 4000) == pytest.approx(
        cost.decode_s("d", "codes8", 4000) + 2 * 4e-4
    )
    assert cost.encode_s("d", "zlib@0.1", 4000) == pytest.approx(2 * 5e-4)
    assert cost.encode_s("d", "jpeg60@0.1", 4000) == pytest.approx(2 * 2.2e-3)


def test_what_packing_takes_goes_by_what_it_leaves() -> None:
    """Between two shares that were timed it lies between their seconds, beyond them it stays."""
    cost = make_cost({"zlib@0.2": ZLIB, "zlib@0.6": WireCost(3e-4, 5e-7, 2e-4, 4e-7)})
    for share, fixed_s, per_byte_s in ((0.2, 1e-4, 1e-7), (0.4, 2e-4, 3e-7), (0.9, 3e-4, 5e-7)):
        seconds = cost.encode_s("d", f"zlib@{share}", 4000)
        assert seconds == pytest.approx(fixed_s + 4000 * per_byte_s)
    assert cost.decode_s("d", "zlib@0.4", 4000) == pytest.approx(2e-4 + 4000 * 3e-7)


def test_a_profile_that_does_not_know_the_format_is_refused() -> None:
    """It would be priced as nothing: one line says to measure again."""
    with pytest.raises(ClusterError, match="'d' does not say what wire format 'jpeg80' takes"):
        make_cost({}).encode_s("d", "jpeg80@0.1", 4000)


@pytest.mark.parametrize(("wire", "share"), [("jpeg60@0.5", 1.0), ("zlib@0.5", 0.25)])
def test_bytes_are_drawn_as_floats_are_and_packed_as_bytes(wire: str, share: float) -> None:
    """A picture has as many values in either type; what is packed without loss is a quarter."""
    took = []
    for dtype in (TensorProto.FLOAT, TensorProto.UINT8):
        graph, cluster = photo_graph(dtype), Cluster.of(["a", "b"])
        profile = straight_profile(graph)
        profile = msgspec.structs.replace(profile, wires={"zlib": LINEAR, "jpeg60": LINEAR})
        cost = CostModel(graph, cluster, profiles=profile)
        options = PlanOptions(wires={"x": wire}, devices=("b",))
        plan = find_plan(cost, planner="single", options=options).plan
        durations = cost.price(cost.layout(plan))
        took.append((max(durations.encode_s.values()), max(durations.receive_s.values())))
    assert took[1][0] == pytest.approx(share * took[0][0])
    assert took[1][1] == pytest.approx(share * took[0][1])
