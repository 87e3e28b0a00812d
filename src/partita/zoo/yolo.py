"""YOLOv2 (Redmon and Farhadi 2017) for the 80 classes of COCO.

The layers are those of the authors' configuration: Darknet-19 without its classifier, three 3x3
convolutions, and a passthrough that brings the 26 x 26 map to 13 x 13. The passthrough stacks
blocks of 2 x 2 positions as the paper says; Darknet's own code orders them otherwise, which trained
weights would have to follow.
"""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Channels of each block's convolutions, kernels 3 and 1 by turns; a pool comes between blocks.
_BLOCKS = (
    (32,),
    (64,),
    (128, 64, 128),
    (256, 128, 256),
    (512, 256, 512, 256, 512),
    (1024, 512, 1024, 512, 1024),
)
_ANCHORS = 5
_CLASSES = 80
_SLOPE = 0.1
_EPSILON = 1e-6


def add_yolov2(builder: Builder, x: str) -> str:
    """Add YOLOv2 behind image ``x`` (N, 3, H, W).

    Returns:
        The raw map (N, 425, H/32, W/32): per anchor four numbers of the box, the confidence and the
        classes' logits; nothing is decoded.
    """
    fine = x
    for block, widths in enumerate(_BLOCKS, start=1):
        if block > 1:
            fine = x
            x = builder.max_pool(x, f"pool{block - 1}", kernel=2, stride=2)
        for index, channels in enumerate(widths, start=1):
            kernel = 3 if index % 2 else 1
            x = add_unit(builder, x, f"conv{block}_{index}", channels, kernel)
    for index in (1, 2):
        x = add_unit(builder, x, f"conv7_{index}", 1024, 3)
    fine = add_unit(builder, fine, "passthrough", 64, 1)
    fine = builder.space_to_depth(fine, "passthrough.reorg", block=2)
    x = builder.concat([fine, x], "concat")
    x = add_unit(builder, x, "conv8", 1024, 3)
    return builder.conv(x, "detections", _ANCHORS * (5 + _CLASSES), kernel=1, bias=True)


def add_unit(
    builder: Builder,
    x: str,
    name: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    scale: float = 1.0,
) -> str:
    """Add a convolution, its normalisation, scaled, and the activation of all YOLOs."""
    x = builder.conv(x, name, channels, kernel=kernel, stride=stride)
    x = builder.batch_norm(x, f"{name}.bn", scale=scale, epsilon=_EPSILON)
    return builder.leaky_relu(x, f"{name}.leaky", slope=_SLOPE)
