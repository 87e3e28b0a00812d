"""SSD300 (Liu et al. 2016, figure 2) on VGG-16 and on ResNet-50, classes as those of COCO.

The VGG is torchvision's ``ssd300_vgg16``. No paper defines an SSD on ResNet-50; ours is NVIDIA's
(DeepLearningExamples, ``SSD300``): ResNet-50 up to its third group, which keeps 38 x 38 positions,
and further layers with batch normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.zoo.builder import Builder
from partita.zoo.resnet import add_resnet50_front
from partita.zoo.vgg import VGG16_BLOCKS, add_vgg_block

#: Boxes per position, of each of the six maps.
_BOXES = (4, 6, 6, 6, 4, 4)
#: Channels before and behind each further map's 3x3, its stride and its pad.
_VGG_FURTHER = ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
_RESNET_FURTHER = ((256, 512, 2, 1), (256, 512, 2, 1), *_VGG_FURTHER[1:])
_VGG_CLASSES = 91
_RESNET_CLASSES = 81
#: What the normalised channels of the first map are multiplied by (Liu et al. 2015, ParseNet).
_SCALE = 20.0


def add_ssd_vgg16(builder: Builder, x: str) -> tuple[str, ...]:
    """Add SSD300 on VGG-16 behind image ``x`` (N, 3, H, W); return the maps of ``_add_heads``."""
    for block, count in enumerate(VGG16_BLOCKS[:4], start=1):
        if block > 1:
            x = builder.max_pool(x, f"pool{block - 1}", kernel=2, stride=2, ceil=block == 4)
        x = add_vgg_block(builder, x, block, count)
    maps = [builder.normalize(x, "norm4", scale=_SCALE)]
    x = builder.max_pool(x, "pool4", kernel=2, stride=2)
    x = add_vgg_block(builder, x, 5, VGG16_BLOCKS[4])
    x = builder.max_pool(x, "pool5", kernel=3, stride=1, pad=1)
    x = builder.relu(builder.conv(x, "conv6", 1024, dilation=6, bias=True), "relu6")
    x = builder.relu(builder.conv(x, "conv7", 1024, kernel=1, bias=True), "relu7")
    maps.append(x)
    for number, (narrow, channels, stride, pad) in enumerate(_VGG_FURTHER, start=8):
        x = builder.conv(x, f"conv{number}_1", narrow, kernel=1, bias=True)
        x = builder.relu(x, f"relu{number}_1")
        x = builder.conv(x, f"conv{number}_2", channels, stride=stride, pad=pad, bias=True)
        x = builder.relu(x, f"relu{number}_2")
        maps.append(x)
    return _add_heads(builder, maps, _VGG_CLASSES)


def add_ssd_resnet50(builder: Builder, x: str) -> tuple[str, ...]:
    """Add SSD300 on ResNet-50 behind image ``x``; return the maps of ``_add_heads``."""
    x = add_resnet50_front(builder, x)
    maps = [x]
    for number, (narrow, channels, stride, pad) in enumerate(_RESNET_FURTHER, start=1):
        name = f"further{number}"
        x = builder.conv(x, f"{name}.conv1", narrow, kernel=1)
        x = builder.relu(builder.batch_norm(x, f"{name}.bn1"), f"{name}.relu1")
        x = builder.conv(x, f"{name}.conv2", channels, stride=stride, pad=pad)
        x = builder.relu(builder.batch_norm(x, f"{name}.bn2"), f"{name}.relu2")
        maps.append(x)
    return _add_heads(builder, maps, _RESNET_CLASSES)


def _add_heads(builder: Builder, maps: Sequence[str], classes: int) -> tuple[str, ...]:
    """Add the 3x3 predictors of every map.

    Returns:
        Per map ``classes<k>`` (N, boxes * classes, h, w), logits, and ``boxes<k>``
        (N, boxes * 4, h, w), offsets to the default boxes; k from 1. They stay maps, so that each
        keeps its rows.
    """
    heads = []
    for number, (source, boxes) in enumerate(zip(maps, _BOXES, strict=True), start=1):
        heads.append(builder.conv(source, f"classes{number}", boxes * classes, bias=True))
        heads.append(builder.conv(source, f"boxes{number}", boxes * 4, bias=True))
    return tuple(heads)
