"""ResNet-18, -50, -152 (He et al. 2016) and ResNeXt-50 32x4d (Xie et al. 2017), each by table 1.

Bottlenecks have their stride in the 3x3 convolution ("v1.5").
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from partita.zoo.builder import Builder

_RESNET18_BLOCKS = (2, 2, 2, 2)
_RESNET50_BLOCKS = (3, 4, 6, 3)
_RESNET152_BLOCKS = (3, 8, 36, 3)
_WIDTHS = (64, 128, 256, 512)
_STRIDES = (1, 2, 2, 2)
_EXPANSION = 4
#: Scale of the last normalisation of a residual branch: sixteen sums grow by a factor of two only.
_BRANCH_SCALE = 0.3

#: Adds one block: builder, input, name, width and stride; returns its output.
Block = Callable[[Builder, str, str, int, int], str]


def add_resnet18(builder: Builder, x: str) -> str:
    """Add ResNet-18 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_classifier(builder, add_groups(builder, x, _RESNET18_BLOCKS, _STRIDES, _add_basic))


def add_resnet50(builder: Builder, x: str) -> str:
    """Add ResNet-50 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_classifier(builder, add_groups(builder, x, _RESNET50_BLOCKS, _STRIDES))


def add_resnet152(builder: Builder, x: str) -> str:
    """Add ResNet-152 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_classifier(builder, add_groups(builder, x, _RESNET152_BLOCKS, _STRIDES))


def add_resnext50(builder: Builder, x: str) -> str:
    """Add ResNeXt-50 32x4d behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    block = partial(_add_bottleneck, widening=2, groups=32)
    return _add_classifier(builder, add_groups(builder, x, _RESNET50_BLOCKS, _STRIDES, block))


def add_resnet50_front(builder: Builder, x: str) -> str:
    """Add ResNet-50 up to its third group, which keeps the extent; return (N, 1024, H/8, W/8)."""
    return add_groups(builder, x, _RESNET50_BLOCKS[:3], (1, 2, 1))[-1]


def add_resnet50_groups(builder: Builder, x: str) -> list[str]:
    """Add ResNet-50; return its groups' outputs, (N, 256, H/4, W/4) to (N, 2048, H/32, W/32)."""
    return add_groups(builder, x, _RESNET50_BLOCKS, _STRIDES)


def _add_bottleneck(
    builder: Builder,
    x: str,
    name: str,
    width: int,
    stride: int,
    *,
    widening: int = 1,
    groups: int = 1,
) -> str:
    """Add a bottleneck of ``widening`` times ``width`` channels in ``groups`` of its 3x3."""
    shortcut = _add_shortcut(builder, x, name, width * _EXPANSION, stride)
    inner = width * widening
    x = builder.conv(x, f"{name}.conv1", inner, kernel=1)
    x = builder.relu(builder.batch_norm(x, f"{name}.bn1"), f"{name}.relu1")
    x = builder.conv(x, f"{name}.conv2", inner, stride=stride, groups=groups)
    x = builder.relu(builder.batch_norm(x, f"{name}.bn2"), f"{name}.relu2")
    x = builder.conv(x, f"{name}.conv3", width * _EXPANSION, kernel=1)
    x = builder.batch_norm(x, f"{name}.bn3", scale=_BRANCH_SCALE)
    return builder.relu(builder.add(x, shortcut, f"{name}.add"), f"{name}.relu3")


def _add_basic(builder: Builder, x: str, name: str, width: int, stride: int) -> str:
    """Add a block of two 3x3 convolutions."""
    shortcut = _add_shortcut(builder, x, name, width, stride)
    x = builder.conv(x, f"{name}.conv1", width, stride=stride)
    x = builder.relu(builder.batch_norm(x, f"{name}.bn1"), f"{name}.relu1")
    x = builder.conv(x, f"{name}.conv2", width)
    x = builder.batch_norm(x, f"{name}.bn2", scale=_BRANCH_SCALE)
    return builder.relu(builder.add(x, shortcut, f"{name}.add"), f"{name}.relu2")


def _add_shortcut(builder: Builder, x: str, name: str, channels: int, stride: int) -> str:
    """``x`` itself where it has the block's shape, else a projection to it."""
    if stride == 1 and builder.shapes[x][1] == channels:
        return x
    x = builder.conv(x, f"{name}.downsample.0", channels, kernel=1, stride=stride)
    return builder.batch_norm(x, f"{name}.downsample.1")


def add_groups(
    builder: Builder,
    x: str,
    blocks: tuple[int, ...],
    strides: tuple[int, ...],
    add_block: Block = _add_bottleneck,
) -> list[str]:
    """Add the stem and the groups of blocks; return each group's output."""
    x = builder.conv(x, "conv1", 64, kernel=7, stride=2)
    x = builder.relu(builder.batch_norm(x, "bn1"), "relu1")
    x = builder.max_pool(x, "maxpool", kernel=3, stride=2, pad=1)
    outputs = []
    for group, (count, step) in enumerate(zip(blocks, strides, strict=True), start=1):
        for index in range(count):
            stride = step if index == 0 else 1
            x = add_block(builder, x, f"layer{group}.{index}", _WIDTHS[group - 1], stride)
        outputs.append(x)
    return outputs


def _add_classifier(builder: Builder, groups: list[str]) -> str:
    x = builder.flatten(builder.mean(groups[-1], "avgpool"), "flatten")
    return builder.dense(x, "fc", 1000)
