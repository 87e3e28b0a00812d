"""OpenPose (Cao et al. 2021) for 25 body parts: the network of the authors' BODY_25 model.

Ten layers of VGG-19 and two more make features; four stages refine part affinity fields, then two
stages confidence maps. Each stage reads the features beside what the stages before found, and
concatenates the outputs of three 3x3 convolutions where older versions had one 7x7 (section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from partita.zoo.builder import Builder
from partita.zoo.vgg import VGG19_BLOCKS, add_vgg_block

_FIELDS = 52
_MAPS = 26
_BLOCKS = 5


@dataclass(frozen=True)
class _Widths:
    """Channels of a stage: of its 3x3 convolutions, of its 1x1, and of its output."""

    inner: int
    last: int
    output: int


def add_openpose(builder: Builder, x: str) -> tuple[str, ...]:
    """Add OpenPose behind image ``x`` (N, 3, H, W).

    Returns:
        ``maps1`` (N, 26, H/8, W/8), confidence of 25 parts and of none, and ``fields3``
        (N, 52, H/8, W/8), a vector per limb; people are not put together.
    """
    features = _add_features(builder, x)
    fields = _add_stage(builder, features, "fields0", _Widths(96, 256, _FIELDS))
    for stage in (1, 2, 3):
        both = builder.concat([features, fields], f"fields{stage}.concat")
        fields = _add_stage(builder, both, f"fields{stage}", _Widths(128, 512, _FIELDS))
    both = builder.concat([features, fields], "maps0.concat")
    maps = _add_stage(builder, both, "maps0", _Widths(96, 256, _MAPS))
    three = builder.concat([features, maps, fields], "maps1.concat")
    return _add_stage(builder, three, "maps1", _Widths(128, 512, _MAPS)), fields


def _add_features(builder: Builder, x: str) -> str:
    for block, count in enumerate(VGG19_BLOCKS[:3], start=1):
        x = add_vgg_block(builder, x, block, count)
        x = builder.max_pool(x, f"pool{block}", kernel=2, stride=2)
    x = add_vgg_block(builder, x, 4, 1)
    for name, channels in (("conv4_2", 512), ("conv4_3", 256), ("conv4_4", 128)):
        x = _add_unit(builder, x, name, channels)
    return x


def _add_stage(builder: Builder, x: str, name: str, widths: _Widths) -> str:
    for block in range(1, _BLOCKS + 1):
        parts = []
        for index in range(3):
            x = _add_unit(builder, x, f"{name}.block{block}.{index}", widths.inner)
            parts.append(x)
        x = builder.concat(parts, f"{name}.block{block}.concat")
    x = _add_unit(builder, x, f"{name}.last", widths.last, kernel=1)
    return builder.conv(x, name, widths.output, kernel=1, bias=True)


def _add_unit(builder: Builder, x: str, name: str, channels: int, *, kernel: int = 3) -> str:
    x = builder.conv(x, f"{name}.conv", channels, kernel=kernel, bias=True)
    return builder.prelu(x, f"{name}.prelu")
