"""GoogLeNet (Szegedy et al. 2015, table 1) with batch normalisation, without auxiliary classifiers.

What the paper calls 5x5 is 3x3, as in the weights that are published for it (TensorFlow-Slim's and
torchvision's), and nothing is normalised by responses.
"""

from __future__ import annotations

from partita.zoo.builder import Builder
from partita.zoo.inception import add_unit

#: Per block channels of: 1x1; 1x1 and 3x3; 1x1 and "5x5"; 1x1 behind the pool.
_BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
#: Blocks behind which a pool of this kernel halves the maps.
_POOLED = {"3b": 3, "4e": 2}


def add_googlenet(builder: Builder, x: str) -> str:
    """Add GoogLeNet behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = add_unit(builder, x, "stem.1", 64, kernel=7, stride=2)
    x = builder.max_pool(x, "stem.pool1", kernel=3, stride=2, ceil=True)
    x = add_unit(builder, x, "stem.2", 64)
    x = add_unit(builder, x, "stem.3", 192, kernel=3)
    x = builder.max_pool(x, "stem.pool2", kernel=3, stride=2, ceil=True)
    for name, widths in _BLOCKS.items():
        x = _add_block(builder, x, f"inception{name}", widths)
        if name in _POOLED:
            x = builder.max_pool(x, f"pool{name}", kernel=_POOLED[name], stride=2, ceil=True)
    x = builder.flatten(builder.mean(x, "avgpool"), "flatten")
    return builder.dense(x, "fc", 1000)


def _add_block(builder: Builder, x: str, name: str, widths: tuple[int, ...]) -> str:
    one, narrow3, three, narrow5, five, pooled = widths
    parts = [add_unit(builder, x, f"{name}.one", one)]
    for label, narrow, channels in (("three", narrow3, three), ("five", narrow5, five)):
        y = add_unit(builder, x, f"{name}.{label}.1", narrow)
        parts.append(add_unit(builder, y, f"{name}.{label}.2", channels, kernel=3))
    y = builder.max_pool(x, f"{name}.pool", kernel=3, stride=1, pad=1)
    parts.append(add_unit(builder, y, f"{name}.pooled", pooled))
    return builder.concat(parts, f"{name}.concat")
