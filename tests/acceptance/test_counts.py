"""Parameters and work of the zoo's models, counted on their ONNX graphs as they are loaded."""

from __future__ import annotations

import pytest

from partita.graph import load_graph
from partita.zoo import ZOO, build_model

#: Parameters and GMAC for one image of 224 x 224; the sources are those that the zoo names.
PUBLISHED = {
    "vgg16": (138_357_544, 15.470),
    "vgg19": (143_667_240, 19.632),
    "resnet50": (25_557_032, 4.089),
    "mobilenet_v2": (3_504_872, 0.301),
    "efficientnet_b0": (5_288_548, 0.386),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_counts_of_loaded_models(name: str) -> None:
    """A loaded model has the published parameters exactly and its work to three decimals."""
    graph = load_graph(build_model(name))
    parameters, giga_macs = PUBLISHED[name]
    assert graph.parameters == parameters
    assert round(graph.macs / 1e9, 3) == giga_macs


def test_the_whole_zoo_is_counted() -> None:
    """No model of the zoo is left out above."""
    assert set(PUBLISHED) == set(ZOO)
