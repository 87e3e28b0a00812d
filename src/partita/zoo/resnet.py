"""ResNet-50 (He et al. 2016, table 1), with the stride in the 3x3 convolution ("v1.5")."""

from __future__ import annotations

from partita.zoo.builder import Builder

_BLOCKS = (3, 4, 6, 3)
_WIDTHS = (64, 128, 256, 512)
_EXPANSION = 4
#: Scale of the last normalisation of a residual branch: sixteen sums grow by a factor of two only.
_BRANCH_SCALE = 0.3


def add_resnet50(builder: Builder, x: str) -> str:
    """Add ResNet-50 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = builder.conv(x, "conv1", 64, kernel=7, stride=2)
    x = builder.relu(builder.batch_norm(x, "bn1"), "relu1")
    x = builder.max_pool(x, "maxpool", kernel=3, stride=2, pad=1)
    for group, (count, width) in enumerate(zip(_BLOCKS, _WIDTHS, strict=True), start=1):
        for index in range(count):
            stride = 2 if index == 0 and group > 1 else 1
            x = _add_bottleneck(builder, x, f"layer{group}.{index}", width, stride)
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
