"""C3D (Tran et al. 2015, figure 3): eight 3-D convolutions over 16 frames, 487 classes.

The last pool pads one row and column, so that frames of 112 give the 4 x 4 maps of the authors'
weights.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Channels of the convolutions of each block; every block ends with a pool.
_BLOCKS = ((64,), (128,), (256, 256), (512, 512), (512, 512))
_CLASSES = 487


def add_c3d(builder: Builder, x: str) -> str:
    """Add C3D behind a clip ``x`` (N, 3, 16, H, W); return the logits (N, 487)."""
    for block, widths in enumerate(_BLOCKS, start=1):
        for letter, channels in zip("ab", widths, strict=False):
            x = builder.conv(x, f"conv{block}{letter}", channels, bias=True)
            x = builder.relu(x, f"relu{block}{letter}")
        # The first pool keeps all frames apart (section 3.2).
        window = (1, 2, 2) if block == 1 else 2
        pad = (0, 1, 1) if block == len(_BLOCKS) else 0
        x = builder.max_pool(x, f"pool{block}", kernel=window, stride=window, pad=pad)
    x = builder.flatten(x, "flatten")
    for index in (6, 7):
        x = builder.relu(builder.dense(x, f"fc{index}", 4096), f"relu{index}")
    return builder.dense(x, "fc8", _CLASSES)
