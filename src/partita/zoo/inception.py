"""Inception-v3 (Szegedy et al. 2016, table 1), without the auxiliary classifier of training.

The widths inside the blocks, which the paper leaves out, are those of its authors' code, as are
pads, epsilon and averages that do not count padding (torchvision's averages do).
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.zoo.builder import Builder
from partita.zoo.extents import Extents

_EPSILON = 1e-3
#: Channels of the 1x1 behind the average pool, of each 35 x 35 block.
_POOLED = (32, 64, 64)
#: Channels between the factorised 7x7 convolutions, of each 17 x 17 block.
_NARROW = (128, 160, 160, 192)


def add_inception_v3(builder: Builder, x: str) -> str:
    """Add Inception-v3 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = _add_stem(builder, x)
    for index, pooled in enumerate(_POOLED):
        x = _add_block35(builder, x, f"mixed35.{index}", pooled)
    x = _add_reduction17(builder, x, "reduce17")
    for index, narrow in enumerate(_NARROW):
        x = _add_block17(builder, x, f"mixed17.{index}", narrow)
    x = _add_reduction8(builder, x, "reduce8")
    for index in range(2):
        x = _add_block8(builder, x, f"mixed8.{index}")
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "fc", 1000)


def add_unit(
    builder: Builder,
    x: str,
    name: str,
    channels: int,
    *,
    kernel: Extents = 1,
    stride: int = 1,
    pad: int | None = None,
) -> str:
    """Add a convolution, its normalisation and activation."""
    x = builder.conv(x, f"{name}.conv", channels, kernel=kernel, stride=stride, pad=pad)
    return builder.relu(builder.batch_norm(x, f"{name}.bn", epsilon=_EPSILON), f"{name}.relu")


def _add_stem(builder: Builder, x: str) -> str:
    x = add_unit(builder, x, "stem.1", 32, kernel=3, stride=2, pad=0)
    x = add_unit(builder, x, "stem.2", 32, kernel=3, pad=0)
    x = add_unit(builder, x, "stem.3", 64, kernel=3)
    x = builder.max_pool(x, "stem.pool1", kernel=3, stride=2)
    x = add_unit(builder, x, "stem.4", 80)
    x = add_unit(builder, x, "stem.5", 192, kernel=3, pad=0)
    return builder.max_pool(x, "stem.pool2", kernel=3, stride=2)


def _add_pooled(builder: Builder, x: str, name: str, channels: int) -> str:
    x = builder.average_pool(x, f"{name}.avgpool", kernel=3, stride=1, pad=1)
    return add_unit(builder, x, f"{name}.pooled", channels)


def _add_block35(builder: Builder, x: str, name: str, pooled: int) -> str:
    five = add_unit(builder, x, f"{name}.five.1", 48)
    five = add_unit(builder, five, f"{name}.five.2", 64, kernel=5)
    double = add_unit(builder, x, f"{name}.double.1", 64)
    double = add_unit(builder, double, f"{name}.double.2", 96, kernel=3)
    double = add_unit(builder, double, f"{name}.double.3", 96, kernel=3)
    one = add_unit(builder, x, f"{name}.one", 64)
    last = _add_pooled(builder, x, name, pooled)
    return builder.concat([one, five, double, last], f"{name}.concat")


def _add_reduction17(builder: Builder, x: str, name: str) -> str:
    three = add_unit(builder, x, f"{name}.three", 384, kernel=3, stride=2, pad=0)
    double = add_unit(builder, x, f"{name}.double.1", 64)
    double = add_unit(builder, double, f"{name}.double.2", 96, kernel=3)
    double = add_unit(builder, double, f"{name}.double.3", 96, kernel=3, stride=2, pad=0)
    pooled = builder.max_pool(x, f"{name}.pool", kernel=3, stride=2)
    return builder.concat([three, double, pooled], f"{name}.concat")


def _add_chain(
    builder: Builder, x: str, name: str, steps: Sequence[tuple[int, tuple[int, int]]]
) -> str:
    """Add units one behind the other, given by channels and kernel."""
    for index, (channels, kernel) in enumerate(steps, start=1):
        x = add_unit(builder, x, f"{name}.{index}", channels, kernel=kernel)
    return x


def _add_block17(builder: Builder, x: str, name: str, narrow: int) -> str:
    one = add_unit(builder, x, f"{name}.one", 192)
    short = ((narrow, (1, 1)), (narrow, (1, 7)), (192, (7, 1)))
    seven = _add_chain(builder, x, f"{name}.seven", short)
    repeated = tuple((narrow, kernel) for kernel in ((1, 1), (7, 1), (1, 7), (7, 1)))
    double = _add_chain(builder, x, f"{name}.double", (*repeated, (192, (1, 7))))
    pooled = _add_pooled(builder, x, name, 192)
    return builder.concat([one, seven, double, pooled], f"{name}.concat")


def _add_reduction8(builder: Builder, x: str, name: str) -> str:
    three = add_unit(builder, x, f"{name}.three.1", 192)
    three = add_unit(builder, three, f"{name}.three.2", 320, kernel=3, stride=2, pad=0)
    steps = ((192, (1, 1)), (192, (1, 7)), (192, (7, 1)))
    seven = _add_chain(builder, x, f"{name}.seven", steps)
    seven = add_unit(builder, seven, f"{name}.seven.4", 192, kernel=3, stride=2, pad=0)
    pooled = builder.max_pool(x, f"{name}.pool", kernel=3, stride=2)
    return builder.concat([three, seven, pooled], f"{name}.concat")


def _add_block8(builder: Builder, x: str, name: str) -> str:
    one = add_unit(builder, x, f"{name}.one", 320)
    three = add_unit(builder, x, f"{name}.three.1", 384)
    double = add_unit(builder, x, f"{name}.double.1", 448)
    double = add_unit(builder, double, f"{name}.double.2", 384, kernel=3)
    spread = [
        add_unit(builder, source, f"{label}.{suffix}", 384, kernel=kernel)
        for source, label in ((three, f"{name}.three"), (double, f"{name}.double"))
        for suffix, kernel in (("wide", (1, 3)), ("tall", (3, 1)))
    ]
    pooled = _add_pooled(builder, x, name, 192)
    return builder.concat([one, *spread, pooled], f"{name}.concat")
