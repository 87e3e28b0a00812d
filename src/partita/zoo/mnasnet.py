"""MnasNet-B1 (Tan et al. 2019, section 4.4), multiplier 1.0: no squeeze, symmetric padding."""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Expansion, kernel, stride of the first block, channels, and blocks of each stage.
_STAGES = (
    (3, 3, 2, 24, 3),
    (3, 5, 2, 40, 3),
    (6, 5, 2, 80, 3),
    (6, 3, 1, 96, 2),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.5


def add_mnasnet(builder: Builder, x: str) -> str:
    """Add MnasNet behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = _add_unit(builder, builder.conv(x, "stem.conv", 32, stride=2), "stem")
    x = builder.conv(x, "first.depthwise.conv", 32, groups=32)
    x = _add_unit(builder, x, "first.depthwise")
    x = builder.batch_norm(builder.conv(x, "first.project.conv", 16, kernel=1), "first.project.bn")
    for number, (expansion, kernel, stride, channels, count) in enumerate(_STAGES, start=1):
        for index in range(count):
            shape = (expansion, kernel, stride if index == 0 else 1, channels)
            x = _add_block(builder, x, f"stage{number}.{index}", shape)
    x = _add_unit(builder, builder.conv(x, "head.conv", 1280, kernel=1), "head")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "classifier", 1000)


def _add_unit(builder: Builder, x: str, name: str) -> str:
    return builder.relu(builder.batch_norm(x, f"{name}.bn"), f"{name}.relu")


def _add_block(builder: Builder, x: str, name: str, shape: tuple[int, int, int, int]) -> str:
    expansion, kernel, stride, channels = shape
    channels_in = builder.shapes[x][1]
    hidden = channels_in * expansion
    residual = stride == 1 and channels_in == channels
    y = _add_unit(
        builder, builder.conv(x, f"{name}.expand.conv", hidden, kernel=1), f"{name}.expand"
    )
    depthwise = f"{name}.depthwise"
    y = builder.conv(y, f"{depthwise}.conv", hidden, kernel=kernel, stride=stride, groups=hidden)
    y = builder.conv(_add_unit(builder, y, depthwise), f"{name}.project.conv", channels, kernel=1)
    y = builder.batch_norm(y, f"{name}.project.bn", scale=_BRANCH_SCALE if residual else 1.0)
    return builder.add(x, y, f"{name}.add") if residual else y
