"""ResNet-50 and -152 (He et al. 2016, table 1), with the stride in the 3x3 convolution ("v1.5")."""

from __future__ import annotations

from partita.zoo.builder import Builder

_RESNET50_BLOCKS = (3, 4, 6, 3)
_RESNET152_BLOCKS = (3, 8, 36, 3)
_WIDTHS = (64, 128, 256, 512)
_STRIDES = (1, 2, 2, 2)
_EXPANSION = 4
#: Scale of the last normalisation of a residual branch: sixteen sums grow by a factor of two only.
_BRANCH_SCALE = 0.3


def add_resnet50(builder: Builder, x: str) -> str:
    """Add ResNet-50 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_classifier(builder, add_groups(builder, x, _RESNET50_BLOCKS, _STRIDES))


def add_resnet152(builder: Builder, x: str) -> str:
    """Add ResNet-152 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_classifier(builder, add_groups(builder, x, _RESNET152_BLOCKS, _STRIDES))


def add_resnet50_front(builder: Builder, x: str) -> str:
    """Add ResNet-50 up to its third group, which keeps the extent; return (N, 1024, H/8, W/8)."""
    return add_groups(builder, x, _RESNET50_BLOCKS[:3], (1, 2, 1))


def add_groups(builder: Builder, x: str, blocks: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """Add the stem and the groups of bottlenecks; return the last group's output."""
    x = builder.conv(x, "conv1", 64, kernel=7, stride=2)
    x = builder.relu(builder.batch_norm(x, "bn1"), "relu1")
    x = builder.max_pool(x, "maxpool", kernel=3, stride=2, pad=1)
    for group, (count, step) in enumerate(zip(blocks, strides, strict=True), start=1):
        for index in range(count):
            stride = step if index == 0 else 1
            x = _add_bottleneck(builder, x, f"layer{group}.{index}", _WIDTHS[group - 1], stride)
    return x


def _add_classifier(builder: Builder, x: str) -> str:
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "fc", 1000)


def _add_bottleneck(builder: Builder, x: str, name: str, width: int, stride: int) -> str:
    channels = width * _EXPANSION
    shortcut = x
    if stride > 1 or builder.shapes[x][1] != channels:
        shortcut = builder.conv(x, f"{name}.downsample.0", channels, kernel=1, stride=stride)
        shortcut = builder.batch_norm(shortcut, f"{name}.downsample.1")
    x = builder.conv(x, f"{name}.conv1", width, kernel=1)
    x = builder.relu(builder.batch_norm(x, f"{name}.bn1"), f"{name}.relu1")
    x = builder.conv(x, f"{name}.conv2", width, stride=stride)
    x = builder.relu(builder.batch_norm(x, f"{name}.bn2"), f"{name}.relu2")
    x = builder.conv(x, f"{name}.conv3", channels, kernel=1)
    x = builder.batch_norm(x, f"{name}.bn3", scale=_BRANCH_SCALE)
    return builder.relu(builder.add(x, shortcut, f"{name}.add"), f"{name}.relu3")
