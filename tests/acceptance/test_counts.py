"""Parameters and work of the zoo's models, counted on their ONNX graphs as they are loaded."""

from __future__ import annotations

import pytest

from partita.graph import load_graph
from partita.zoo import ZOO, build_model

#: Parameters, and GMAC for one input of the model's own size; the sources are those that the zoo
#: names.
PUBLISHED = {
    "alexnet": (62_378_344, 1.135),
    "vgg16": (138_357_544, 15.470),
    "vgg19": (143_667_240, 19.632),
    "resnet50": (25_557_032, 4.089),
    "resnet152": (60_192_808, 11.514),
    "mobilenet_v1": (4_231_976, 0.569),
    "mobilenet_v2": (3_504_872, 0.301),
    "efficientnet_b0": (5_288_548, 0.386),
    "inception_v3": (23_834_568, 5.713),
    "xception": (22_855_952, 8.357),
    "squeezenet": (1_248_424, 0.819),
    "densenet201": (20_013_928, 4.291),
    "yolov2": (50_962_889, 14.732),
    "ssd_vgg16": (35_641_826, 34.858),
    "ssd_resnet50": (22_894_902, 20.151),
    "openpose": (26_166_084, 80.573),
    "voxelnet": (6_655_376, 283.528),
    "c3d": (79_991_015, 38.549),
    "lowlight_resnet": (1_235_724, 20.158),
    "resnet18": (11_689_512, 1.814),
    "resnext50_32x4d": (25_028_904, 4.230),
    "googlenet": (6_624_904, 1.498),
    "mnasnet1_0": (4_383_312, 0.314),
    "yolov3": (61_949_149, 32.932),
    "yolov3_tiny": (8_852_366, 2.782),
    "yolov3_spp": (62_998_749, 33.109),
    "faster_rcnn": (27_446_351, 120.020),
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
