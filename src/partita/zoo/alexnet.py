"""AlexNet (Krizhevsky et al. 2012) as a single stream: no groups, so that every filter sees all.

The first convolution pads two, so that an image of 224 gives the paper's maps of 55 x 55.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Channels, kernel, stride and pad of the convolutions.
_CONVOLUTIONS = ((96, 11, 4, 2), (256, 5, 1, 2), (384, 3, 1, 1), (384, 3, 1, 1), (256, 3, 1, 1))
#: Convolutions behind which responses are normalised (section 3.3), and those before a pool.
_NORMALISED = (1, 2)
_POOLED = (1, 2, 5)


def add_alexnet(builder: Builder, x: str) -> str:
    """Add AlexNet behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    for number, (channels, kernel, stride, pad) in enumerate(_CONVOLUTIONS, start=1):
        name = f"conv{number}"
        x = builder.conv(x, name, channels, kernel=kernel, stride=stride, pad=pad, bias=True)
        x = builder.relu(x, f"relu{number}")
        if number in _NORMALISED:
            x = builder.normalize_responses(x, f"norm{number}")
        if number in _POOLED:
            x = builder.max_pool(x, f"pool{number}", kernel=3, stride=2)
    x = builder.flatten(x, "flatten")
    for index in (6, 7):
        x = builder.relu(builder.dense(x, f"fc{index}", 4096), f"relu{index}")
    return builder.dense(x, "fc8", 1000)
