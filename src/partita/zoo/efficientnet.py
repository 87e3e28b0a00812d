"""EfficientNet-B0 (Tan and Le 2019, table 1), with symmetric padding."""

from __future__ import annotations

from dataclasses import dataclass

from partita.zoo.builder import Builder

_EPSILON = 1e-3
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.5


@dataclass(frozen=True)
class _Setting:
    expansion: int
    kernel: int
    stride: int
    channels: int


#: Settings of each stage's first block, and how many blocks the stage has.
_STAGES = (
    (_Setting(1, 3, 1, 16), 1),
    (_Setting(6, 3, 2, 24), 2),
    (_Setting(6, 5, 2, 40), 2),
    (_Setting(6, 3, 2, 80), 3),
    (_Setting(6, 5, 1, 112), 3),
    (_Setting(6, 5, 2, 192), 4),
    (_Setting(6, 3, 1, 320), 1),
)


def add_efficientnet_b0(builder: Builder, x: str) -> str:
    """Add EfficientNet-B0 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = _add_unit(builder, builder.conv(x, "stem.conv", 32, stride=2), "stem")
    for number, (first, repeats) in enumerate(_STAGES, start=1):
        rest = _Setting(first.expansion, first.kernel, 1, first.channels)
        for index in range(repeats):
            setting = first if index == 0 else rest
            x = _add_block(builder, x, f"stage{number}.{index}", setting)
    x = _add_unit(builder, builder.conv(x, "head.conv", 1280, kernel=1), "head")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "classifier", 1000)


def _add_unit(builder: Builder, x: str, name: str) -> str:
    return builder.swish(builder.batch_norm(x, f"{name}.bn", epsilon=_EPSILON), f"{name}.swish")


def _add_block(builder: Builder, x: str, name: str, setting: _Setting) -> str:
    channels_in = builder.shapes[x][1]
    hidden = channels_in * setting.expansion
    residual = setting.stride == 1 and channels_in == setting.channels
    y = x
    if setting.expansion > 1:
        y = builder.conv(y, f"{name}.expand.conv", hidden, kernel=1)
        y = _add_unit(builder, y, f"{name}.expand")
    y = builder.conv(
        y,
        f"{name}.depthwise.conv",
        hidden,
        kernel=setting.kernel,
        stride=setting.stride,
        groups=hidden,
    )
    y = _add_unit(builder, y, f"{name}.depthwise")
    y = _add_squeeze(builder, y, f"{name}.se", channels_in // 4)
    y = builder.conv(y, f"{name}.project.conv", setting.channels, kernel=1)
    scale = _BRANCH_SCALE if residual else 1.0
    y = builder.batch_norm(y, f"{name}.project.bn", scale=scale, epsilon=_EPSILON)
    return builder.add(y, x, f"{name}.add") if residual else y


def _add_squeeze(builder: Builder, x: str, name: str, squeezed: int) -> str:
    """Add squeeze-and-excitation: each channel weighed by what its mean says."""
    channels = builder.shapes[x][1]
    y = builder.mean(x, f"{name}.mean")
    y = builder.conv(y, f"{name}.reduce", squeezed, kernel=1, bias=True)
    y = builder.swish(y, f"{name}.swish")
    y = builder.conv(y, f"{name}.expand", channels, kernel=1, bias=True)
    return builder.gate(x, y, f"{name}.gate")
