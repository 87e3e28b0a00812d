"""Xception (Chollet 2017, figure 5): 34 separable convolutions, linear shortcuts around them.

As in the author's code nothing lies between a depthwise convolution and its pointwise one, and one
normalisation follows both. Padding is symmetric, where TensorFlow pads one map at one side only.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.zoo.builder import Builder

_STEM = "stem2.relu"
_MIDDLE_BLOCKS = 8
_MIDDLE = (728, 728, 728)
#: Channels of the separable convolutions of blocks that halve the maps.
_ENTRY = ((128, 128), (256, 256), (728, 728))
_EXIT = (728, 1024)
_LAST = (1536, 2048)
_EPSILON = 1e-3
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.3


def add_xception(builder: Builder, x: str) -> str:
    """Add Xception behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = builder.conv(x, "stem1.conv", 32, stride=2, pad=0)
    x = builder.relu(builder.batch_norm(x, "stem1.bn", epsilon=_EPSILON), "stem1.relu")
    x = builder.conv(x, "stem2.conv", 64, pad=0)
    x = builder.relu(builder.batch_norm(x, "stem2.bn", epsilon=_EPSILON), _STEM)
    for number, widths in enumerate(_ENTRY, start=1):
        x = _add_halving(builder, x, f"entry{number}", widths)
    for number in range(1, _MIDDLE_BLOCKS + 1):
        name = f"middle{number}"
        x = builder.add(_add_branch(builder, x, name, _MIDDLE), x, f"{name}.add")
    x = _add_halving(builder, x, "exit", _EXIT)
    for number, channels in enumerate(_LAST, start=1):
        x = _add_separable(builder, x, f"last{number}", channels)
        x = builder.relu(x, f"last{number}.relu")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "classifier", 1000)


def _add_halving(builder: Builder, x: str, name: str, widths: Sequence[int]) -> str:
    shortcut = builder.conv(x, f"{name}.shortcut.conv", widths[-1], kernel=1, stride=2)
    shortcut = builder.batch_norm(shortcut, f"{name}.shortcut.bn", epsilon=_EPSILON)
    x = _add_branch(builder, x, name, widths)
    x = builder.max_pool(x, f"{name}.pool", kernel=3, stride=2, pad=1)
    return builder.add(x, shortcut, f"{name}.add")


def _add_branch(builder: Builder, x: str, name: str, widths: Sequence[int]) -> str:
    """Add activations and separable convolutions in turn; the stem's end is active already."""
    for number, channels in enumerate(widths, start=1):
        part = f"{name}.{number}"
        if x != _STEM:
            x = builder.relu(x, f"{part}.relu")
        scale = _BRANCH_SCALE if number == len(widths) else 1.0
        x = _add_separable(builder, x, part, channels, scale=scale)
    return x


def _add_separable(
    builder: Builder, x: str, name: str, channels: int, *, scale: float = 1.0
) -> str:
    before = builder.shapes[x][1]
    x = builder.conv(x, f"{name}.depthwise", before, groups=before)
    x = builder.conv(x, f"{name}.pointwise", channels, kernel=1)
    return builder.batch_norm(x, f"{name}.bn", scale=scale, epsilon=_EPSILON)
