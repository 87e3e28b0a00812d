"""VoxelNet for cars (Zhou and Tuzel 2018): convolutional middle layers and region proposal network.

The voxel feature encoding before them is left out: it works on a list of points, not on a grid, and
its result, scattered to a dense grid, is the input here.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Stride and pad over depth of the three 3-D convolutions (section 3.1).
_MIDDLE = ((2, 1), (1, 0), (2, 1))
#: Channels of the blocks of figure 4 and their 3x3 convolutions behind the first, which halves.
_BLOCKS = ((128, 3), (128, 5), (256, 5))
#: Kernel, stride and pad of what brings each block back to the first one's extent.
_UP = ((3, 1, 1), (2, 2, 0), (4, 4, 0))
_ANCHORS = 2


def add_voxelnet(builder: Builder, x: str) -> tuple[str, ...]:
    """Add VoxelNet behind features ``x`` (N, 128, D, H, W), D = 10.

    Returns:
        ``scores`` (N, 2, H/2, W/2), the anchors' logits, and ``boxes`` (N, 14, H/2, W/2), seven
        numbers of each anchor's box; nothing is decoded.
    """
    for number, (stride, pad) in enumerate(_MIDDLE, start=1):
        name = f"middle{number}"
        x = builder.conv(x, f"{name}.conv", 64, stride=(stride, 1, 1), pad=(pad, 1, 1))
        x = _finish(builder, x, name)
    batch, channels, depth, *size = builder.shapes[x]
    x = builder.reshape(x, "middle.flat", (batch, channels * depth, *size))
    ups = []
    for number, (channels, count) in enumerate(_BLOCKS, start=1):
        for index in range(count + 1):
            name = f"block{number}.{index}"
            x = builder.conv(x, f"{name}.conv", channels, stride=1 if index else 2)
            x = _finish(builder, x, name)
        kernel, stride, pad = _UP[number - 1]
        name = f"up{number}"
        up = builder.conv_transpose(x, f"{name}.conv", 256, kernel=kernel, stride=stride, pad=pad)
        ups.append(_finish(builder, up, name))
    x = builder.concat(ups, "concat")
    scores = builder.conv(x, "scores", _ANCHORS, kernel=1, bias=True)
    return scores, builder.conv(x, "boxes", _ANCHORS * 7, kernel=1, bias=True)


def _finish(builder: Builder, x: str, name: str) -> str:
    return builder.relu(builder.batch_norm(x, f"{name}.bn"), f"{name}.relu")
