"""VGG-16 and VGG-19 (Simonyan and Zisserman 2015, table 1, columns D and E)."""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Convolutions per block; every block ends with a pool that halves height and width.
VGG16_BLOCKS = (2, 2, 3, 3, 3)
VGG19_BLOCKS = (2, 2, 4, 4, 4)
_CHANNELS = (64, 128, 256, 512, 512)


def add_vgg16(builder: Builder, x: str) -> str:
    """Add VGG-16 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_vgg(builder, x, VGG16_BLOCKS)


def add_vgg19(builder: Builder, x: str) -> str:
    """Add VGG-19 behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    return _add_vgg(builder, x, VGG19_BLOCKS)


def add_vgg_block(builder: Builder, x: str, block: int, count: int) -> str:
    """Add the first ``count`` convolutions of a block, counted from 1, without its pool."""
    for index in range(1, count + 1):
        x = builder.conv(x, f"conv{block}_{index}", _CHANNELS[block - 1], bias=True)
        x = builder.relu(x, f"relu{block}_{index}")
    return x


def _add_vgg(builder: Builder, x: str, blocks: tuple[int, ...]) -> str:
    for block, count in enumerate(blocks, start=1):
        x = add_vgg_block(builder, x, block, count)
        x = builder.max_pool(x, f"pool{block}", kernel=2, stride=2)
    x = builder.flatten(x, "flatten")
    for index in (6, 7):
        x = builder.dense(x, f"fc{index}", 4096)
        x = builder.relu(x, f"relu{index}")
    return builder.dense(x, "fc8", 1000)
