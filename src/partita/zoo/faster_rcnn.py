"""Faster R-CNN on ResNet-50 with a feature pyramid: backbone, pyramid and region proposal heads.

Backbone and pyramid are those of Lin et al. 2017 ("Feature pyramid networks for object detection"),
the heads those of Ren et al. 2015, as torchvision's ``fasterrcnn_resnet50_fpn`` has them. What
chooses among the proposals, and the second stage behind that choice, is left out: how much it
computes depends on the image.
"""

from __future__ import annotations

from partita.zoo.builder import Builder
from partita.zoo.resnet import add_resnet50_groups

_CHANNELS = 256
#: Anchors per position: one size per level, three ratios.
_ANCHORS = 3
#: Names that the heads' weights have on all levels.
_HEAD = "rpn"


def add_faster_rcnn(builder: Builder, x: str, *, finest: int = 2) -> tuple[str, ...]:
    """Add the network behind image ``x`` (N, 3, H, W).

    Args:
        finest: The first level of the pyramid, 2 to 5: groups of the backbone before it are not
            looked at.

    Returns:
        Per level, k from ``finest`` to 6, ``scores<k>`` (N, 3, H/2^k, W/2^k), the anchors' logits,
        and ``boxes<k>`` (N, 12, H/2^k, W/2^k), offsets to the anchors; nothing is decoded.
    """
    return tuple(
        head
        for level, features in enumerate(_add_pyramid(builder, x, finest), start=finest)
        for head in _add_heads(builder, features, level)
    )


def _add_pyramid(builder: Builder, x: str, finest: int) -> list[str]:
    """Add backbone and pyramid; return the levels, the finest first."""
    groups = add_resnet50_groups(builder, x)
    levels: list[str] = []
    above = ""
    for level in range(5, finest - 1, -1):
        inner = builder.conv(groups[level - 2], f"fpn.inner{level}", _CHANNELS, kernel=1, bias=True)
        if above:
            finer = builder.upsample(above, f"fpn.up{level}")
            inner = builder.add(inner, finer, f"fpn.add{level}")
        levels.append(builder.conv(inner, f"fpn.layer{level}", _CHANNELS, bias=True))
        above = inner
    last = builder.max_pool(levels[0], "fpn.pool6", kernel=1, stride=2)
    return [*reversed(levels), last]


def _add_heads(builder: Builder, x: str, level: int) -> tuple[str, str]:
    """Add the heads of one level; their weights are those of every level."""
    x = builder.conv(x, f"rpn{level}.conv", _CHANNELS, bias=True, weights=f"{_HEAD}.conv")
    x = builder.relu(x, f"rpn{level}.relu")
    scores = builder.conv(
        x, f"scores{level}", _ANCHORS, kernel=1, bias=True, weights=f"{_HEAD}.scores"
    )
    boxes = builder.conv(
        x, f"boxes{level}", _ANCHORS * 4, kernel=1, bias=True, weights=f"{_HEAD}.boxes"
    )
    return scores, boxes
