"""VGG-16's convolutions and pools, which the paper's figures are about."""

from __future__ import annotations

from functools import lru_cache

from onnx import helper

from partita.graph import Graph
from partita.planners import LayerOrder
from tests.planners.fakes import conv, make_graph

#: First layers of the thirteen volumes of one convolution each, pools with the one before.
CONVOLUTIONS = (0, 1, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16)
#: First layers of the five volumes that end with the pools.
BLOCKS = (0, 3, 6, 10, 14)
LAYERS = 18

_WIDTHS = ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)


def make_vgg(widths: tuple[tuple[int, ...], ...] = _WIDTHS, size: int = 224) -> Graph:
    """Return blocks of 3 x 3 convolutions, a 2 x 2 pool after each, without dense layers."""
    parts: list[object] = []
    before, source = 3, "x"
    for block, channels in enumerate(widths, start=1):
        for index, after in enumerate(channels, start=1):
            target = f"conv{block}_{index}"
            parts += conv(f"c{block}_{index}", source, target, (after, before, 3, 3))
            before, source = after, target
        pool = f"pool{block}"
        window = {"kernel_shape": [2, 2], "strides": [2, 2]}
        parts.append(helper.make_node("MaxPool", [source], [pool], name=f"p{block}", **window))
        source = pool
    return make_graph(parts, {"x": (1, 3, size, size)}, [source])


@lru_cache
def vgg16() -> LayerOrder:
    """Return the outline at 224 x 224; layers 0 to 17 are all there are."""
    return LayerOrder(make_vgg())
