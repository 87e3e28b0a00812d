"""DenseNet-201 (Huang et al. 2017, table 1)."""

from __future__ import annotations

from partita.zoo.builder import Builder

_BLOCKS = (6, 12, 48, 32)
_GROWTH = 32
#: Channels of a layer's 1x1 convolution over its growth.
_BOTTLENECK = 4


def add_densenet201(builder: Builder, x: str) -> str:
    """Add DenseNet-201 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = builder.conv(x, "conv0", 2 * _GROWTH, kernel=7, stride=2)
    x = _activate(builder, x, "norm0")
    x = builder.max_pool(x, "pool0", kernel=3, stride=2, pad=1)
    for block, count in enumerate(_BLOCKS, start=1):
        for index in range(1, count + 1):
            x = _add_layer(builder, x, f"block{block}.{index}")
        if block < len(_BLOCKS):
            x = _add_transition(builder, x, f"transition{block}")
    x = builder.mean(_activate(builder, x, "norm5"), "avgpool")
    return builder.dense(builder.flatten(x, "flatten"), "classifier", 1000)


def _activate(builder: Builder, x: str, name: str) -> str:
    return builder.relu(builder.batch_norm(x, name), f"{name}.relu")


def _add_layer(builder: Builder, x: str, name: str) -> str:
    y = _activate(builder, x, f"{name}.norm1")
    y = builder.conv(y, f"{name}.conv1", _BOTTLENECK * _GROWTH, kernel=1)
    y = _activate(builder, y, f"{name}.norm2")
    y = builder.conv(y, f"{name}.conv2", _GROWTH)
    return builder.concat([x, y], f"{name}.concat")


def _add_transition(builder: Builder, x: str, name: str) -> str:
    y = _activate(builder, x, f"{name}.norm")
    y = builder.conv(y, f"{name}.conv", builder.shapes[x][1] // 2, kernel=1)
    return builder.average_pool(y, f"{name}.pool", kernel=2, stride=2)
