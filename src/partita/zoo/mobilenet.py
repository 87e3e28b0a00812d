"""MobileNet-v1 (Howard et al. 2017, table 1) and -v2 (Sandler et al. 2018, table 2), width 1.0.

Padding is symmetric, where TensorFlow's own models pad stride 2 at one side only.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Channels and stride of MobileNet-v1's depthwise separable convolutions.
_SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
#: Of MobileNet-v2: expansion, channels, repeats, stride of the first repeat.
_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.5


def add_mobilenet_v1(builder: Builder, x: str) -> str:
    """Add MobileNet-v1 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = builder.conv(x, "stem.conv", 32, stride=2)
    x = builder.relu(builder.batch_norm(x, "stem.bn"), "stem.relu")
    for number, (channels, stride) in enumerate(_SEPARABLE, start=1):
        name = f"block{number}"
        narrow = builder.shapes[x][1]
        x = builder.conv(x, f"{name}.depthwise.conv", narrow, stride=stride, groups=narrow)
        x = builder.relu(builder.batch_norm(x, f"{name}.depthwise.bn"), f"{name}.depthwise.relu")
        x = builder.conv(x, f"{name}.pointwise.conv", channels, kernel=1)
        x = builder.relu(builder.batch_norm(x, f"{name}.pointwise.bn"), f"{name}.pointwise.relu")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "classifier", 1000)


def add_mobilenet_v2(builder: Builder, x: str) -> str:
    """Add MobileNet-v2 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = _add_unit(builder, builder.conv(x, "stem.conv", 32, stride=2), "stem")
    number = 0
    for expansion, channels, repeats, stride in _BLOCKS:
        for repeat in range(repeats):
            number += 1
            step = stride if repeat == 0 else 1
            x = _add_inverted_residual(builder, x, f"block{number}", (expansion, channels, step))
    x = _add_unit(builder, builder.conv(x, "head.conv", 1280, kernel=1), "head")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "classifier", 1000)


def _add_unit(builder: Builder, x: str, name: str) -> str:
    return builder.relu6(builder.batch_norm(x, f"{name}.bn"), f"{name}.relu6")


def _add_inverted_residual(
    builder: Builder, x: str, name: str, setting: tuple[int, int, int]
) -> str:
    expansion, channels, stride = setting
    channels_in = builder.shapes[x][1]
    hidden = channels_in * expansion
    residual = stride == 1 and channels_in == channels
    y = x
    if expansion > 1:
        y = builder.conv(y, f"{name}.expand.conv", hidden, kernel=1)
        y = _add_unit(builder, y, f"{name}.expand")
    y = builder.conv(y, f"{name}.depthwise.conv", hidden, stride=stride, groups=hidden)
    y = _add_unit(builder, y, f"{name}.depthwise")
    y = builder.conv(y, f"{name}.project.conv", channels, kernel=1)
    y = builder.batch_norm(y, f"{name}.project.bn", scale=_BRANCH_SCALE if residual else 1.0)
    return builder.add(x, y, f"{name}.add") if residual else y
