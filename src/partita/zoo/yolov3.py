"""YOLOv3, YOLOv3-spp and YOLOv3-tiny (Redmon and Farhadi 2018) for the 80 classes of COCO.

The layers are those of the authors' configurations. Each detection map is raw: per position and
anchor four numbers of the box, the confidence and the classes' logits; nothing is decoded.
"""

from __future__ import annotations

from partita.zoo.builder import Builder
from partita.zoo.yolo import add_unit

#: Channels and residual blocks of Darknet-53's groups, each behind a convolution that halves.
_GROUPS = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))
#: Channels of the tiny network's convolutions before a pool; all pools but the last halve.
_TINY = (16, 32, 64, 128, 256, 512)
#: Kernels of spatial pyramid pooling.
_PYRAMID = (5, 9, 13)
#: Three anchors per position, each with a box, a confidence and 80 classes.
_DETECTIONS = 3 * (5 + 80)
#: Like that of partita.zoo.resnet: sums grow little over the residual branches. Not tuned.
_BRANCH_SCALE = 0.5


def add_yolov3(builder: Builder, x: str) -> tuple[str, ...]:
    """Add YOLOv3 behind image ``x`` (N, 3, H, W).

    Returns:
        ``detections1``, ``2`` and ``3``, (N, 255, H/32, W/32), (…, H/16, …) and (…, H/8, …).
    """
    return _add_yolov3(builder, x, pyramid=False)


def add_yolov3_spp(builder: Builder, x: str) -> tuple[str, ...]:
    """Add YOLOv3 with spatial pyramid pooling; return what :func:`add_yolov3` does."""
    return _add_yolov3(builder, x, pyramid=True)


def add_yolov3_tiny(builder: Builder, x: str) -> tuple[str, ...]:
    """Add YOLOv3-tiny behind image ``x`` (N, 3, H, W).

    Returns:
        ``detections1`` (N, 255, H/32, W/32) and ``detections2`` (N, 255, H/16, W/16).
    """
    fine = []
    for number, channels in enumerate(_TINY, start=1):
        x = add_unit(builder, x, f"conv{number}", channels, 3)
        fine.append(x)
        # The last pool keeps the extent: a line is padded behind the map, none before it.
        step = 2 if number < len(_TINY) else 1
        x = builder.max_pool(x, f"pool{number}", kernel=2, stride=step, pad_end=2 - step)
    x = add_unit(builder, x, "conv7", 1024, 3)
    x = add_unit(builder, x, "conv8", 256, 1)
    first = _add_detections(builder, add_unit(builder, x, "head1", 512, 3), 1)
    x = _add_finer(builder, x, fine[-2], "up2", 128)
    return first, _add_detections(builder, add_unit(builder, x, "head2", 256, 3), 2)


def _add_yolov3(builder: Builder, x: str, *, pyramid: bool) -> tuple[str, ...]:
    x = add_unit(builder, x, "stem", 32, 3)
    groups = []
    for number, (channels, count) in enumerate(_GROUPS, start=1):
        x = add_unit(builder, x, f"group{number}", channels, 3, stride=2)
        for index in range(1, count + 1):
            x = _add_residual(builder, x, f"group{number}.{index}")
        groups.append(x)
    maps = []
    for number, width in enumerate((512, 256, 128), start=1):
        if number > 1:
            x = _add_finer(builder, x, groups[-number], f"up{number}", width)
        x = _add_neck(builder, x, f"neck{number}", width, pyramid and number == 1)
        head = add_unit(builder, x, f"head{number}", 2 * width, 3)
        maps.append(_add_detections(builder, head, number))
    return tuple(maps)


def _add_residual(builder: Builder, x: str, name: str) -> str:
    channels = builder.shapes[x][1]
    y = add_unit(builder, x, f"{name}.1", channels // 2, 1)
    y = add_unit(builder, y, f"{name}.2", channels, 3, scale=_BRANCH_SCALE)
    return builder.add(x, y, f"{name}.add")


def _add_neck(builder: Builder, x: str, name: str, width: int, pyramid: bool) -> str:
    """Add five convolutions, kernels 1 and 3 by turns; behind the third a pyramid where asked."""
    for index in range(1, 6):
        kernel = 1 if index % 2 else 3
        x = add_unit(builder, x, f"{name}.{index}", width if kernel == 1 else 2 * width, kernel)
        if pyramid and index == 3:
            pools = [
                builder.max_pool(x, f"{name}.pool{k}", kernel=k, stride=1, pad=k // 2)
                for k in _PYRAMID
            ]
            x = builder.concat([*reversed(pools), x], f"{name}.pyramid")
            x = add_unit(builder, x, f"{name}.pooled", width, 1)
    return x


def _add_finer(builder: Builder, x: str, fine: str, name: str, width: int) -> str:
    """Add the coarse map, narrowed to ``width`` and upsampled, beside the ``fine`` one."""
    x = add_unit(builder, x, name, width, 1)
    return builder.concat([builder.upsample(x, f"{name}.upsample"), fine], f"{name}.concat")


def _add_detections(builder: Builder, x: str, number: int) -> str:
    return builder.conv(x, f"detections{number}", _DETECTIONS, kernel=1, bias=True)
