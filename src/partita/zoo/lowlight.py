"""A low-light image-to-image ResNet of our own.

The network that "Reinforcement Learning Based Asymmetrical DNN Modularization for Optimal Loading"
measures is a proprietary camera model, of which the paper tells that it is "a form of Resnet" and
no more. This one stands in for it: the residual trunk of SRResNet (Ledig et al. 2017, figure 4:
sixteen blocks of 64 channels between a convolution and a long skip) on blocks of 2 x 2 pixels, as
low-light networks pack raw sensor data (Chen et al. 2018, "Learning to See in the Dark"). Numbers
measured with it are not the paper's network's.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

_CHANNELS = 64
_BLOCKS = 16
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.5


def add_lowlight_resnet(builder: Builder, x: str) -> str:
    """Add the network behind image ``x`` (N, 3, H, W); return the brightened one, of its shape."""
    x = builder.space_to_depth(x, "pack", block=2)
    x = builder.prelu(builder.conv(x, "head", _CHANNELS, bias=True), "head.prelu")
    trunk = x
    for number in range(1, _BLOCKS + 1):
        trunk = _add_block(builder, trunk, f"block{number}")
    trunk = builder.batch_norm(builder.conv(trunk, "trunk", _CHANNELS), "trunk.bn")
    x = builder.conv(builder.add(trunk, x, "skip"), "tail", 3 * 4, bias=True)
    return builder.depth_to_space(x, "unpack", block=2)


def _add_block(builder: Builder, x: str, name: str) -> str:
    y = builder.batch_norm(builder.conv(x, f"{name}.conv1", _CHANNELS), f"{name}.bn1")
    y = builder.conv(builder.prelu(y, f"{name}.prelu"), f"{name}.conv2", _CHANNELS)
    y = builder.batch_norm(y, f"{name}.bn2", scale=_BRANCH_SCALE)
    return builder.add(y, x, f"{name}.add")
