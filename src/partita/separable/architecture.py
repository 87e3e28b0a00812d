"""ResNeXts for small images, and their separable forms (sections 3.1 and 4.1, table 1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from partita.errors import ModelError

#: Channels behind the stem, and of a group behind the first stage; each stage doubles the latter.
STEM = 16
_FIRST = 64
STAGES = 3
#: Layers of a block, and layers beside blocks: the stem and the dense one.
_BLOCK_DEPTH, _OTHER_DEPTH = 3, 2
#: Three stages halve the extent twice.
_LEAST_SIZE = 4


@dataclass(frozen=True)
class Block:
    """One bottleneck; numbers are of one group.

    Attributes:
        stage: Its stage, from 0.
        inner: Channels between its 1x1 convolutions.
        paths: Groups of its 3x3 convolution.
        size: Height and width of its output.
        projects: Whether its shortcut is a convolution.
    """

    name: str
    stage: int
    channels_in: int
    inner: int
    channels: int
    paths: int
    stride: int
    size: tuple[int, int]
    projects: bool

    def count_macs(self) -> int:
        """Multiply-accumulates of one group, without the shortcut's."""
        positions = self.size[0] * self.size[1]
        narrow = self.channels_in * self.inner * self.stride**2
        wide = 9 * self.inner * self.inner // self.paths + self.inner * self.channels
        return (narrow + wide) * positions

    def count_parameters(self) -> int:
        """Learned numbers of one group: weights, and scale and shift of normalisations."""
        weights = self.channels_in * self.inner + 9 * self.inner**2 // self.paths
        weights += self.inner * self.channels + 2 * (2 * self.inner + self.channels)
        return weights + self.projects * (self.channels_in + 2) * self.channels


@dataclass(frozen=True)
class Architecture:
    """A ResNeXt whose paths lie in groups that compute by themselves.

    Attributes:
        depth: Layers: 9 per block of each stage, and 2.
        cardinality: Paths of a block.
        width: Channels of a path in the first stage.
        groups: Parts that may be on devices of their own; 1 is the plain network.
        classes: Outputs.
        image: Channels, height and width of an input.

    Raises:
        ModelError: A number is out of range, or groups do not divide the paths.
    """

    depth: int
    cardinality: int
    width: int
    groups: int = 1
    classes: int = 10
    image: tuple[int, int, int] = (3, 32, 32)

    def __post_init__(self) -> None:
        for name in ("cardinality", "width", "groups", "classes"):
            if getattr(self, name) < 1:
                raise ModelError(
                    f"{name} = {getattr(self, name)}: allowed are whole numbers from 1"
                )
        per_block = STAGES * _BLOCK_DEPTH
        if self.depth <= _OTHER_DEPTH or (self.depth - _OTHER_DEPTH) % per_block:
            raise ModelError(
                f"depth = {self.depth}: allowed is {per_block} times the blocks of a stage, plus"
                f" {_OTHER_DEPTH}: 11, 20, 29... 56, 110"
            )
        if self.cardinality % self.groups:
            divisors = [g for g in range(1, self.cardinality + 1) if not self.cardinality % g]
            raise ModelError(
                f"groups = {self.groups}: allowed for {self.cardinality} paths are"
                f" {', '.join(map(str, divisors))}"
            )
        channels, *size = self.image
        if channels < 1 or min(size) < _LEAST_SIZE:
            raise ModelError(
                f"image = {'x'.join(map(str, self.image))}: allowed are channels x height x width"
                f" from 1x{_LEAST_SIZE}x{_LEAST_SIZE}"
            )

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        groups: int = 1,
        classes: int = 10,
        image: tuple[int, int, int] = (3, 32, 32),
    ) -> Architecture:
        """The architecture that the paper calls ``8x16d-56``: paths, width of a path, depth.

        Raises:
            ModelError: Another form, or a number out of range.
        """
        form = re.fullmatch(r"(\d+)x(\d+)d-(\d+)", text)
        if form is None:
            raise ModelError(f"architecture {text!r}: expected the form 8x16d-56")
        cardinality, width, depth = map(int, form.groups())
        return cls(depth, cardinality, width, groups, classes, image)

    def __str__(self) -> str:
        plain = f"{self.cardinality}x{self.width}d-{self.depth}"
        return plain if self.groups == 1 else f"{plain} in {self.groups} groups"

    @property
    def stage_blocks(self) -> int:
        """Blocks of each stage."""
        return (self.depth - _OTHER_DEPTH) // (STAGES * _BLOCK_DEPTH)

    @property
    def features(self) -> int:
        """Channels of a group behind the last stage."""
        return _FIRST << (STAGES - 1)

    def blocks(self) -> Iterator[Block]:
        """All blocks, in order."""
        channels_in, (height, width) = STEM, self.image[1:]
        for stage in range(STAGES):
            channels = _FIRST << stage
            inner = (self.cardinality * self.width << stage) // self.groups
            for index in range(self.stage_blocks):
                stride = 2 if stage and not index else 1
                height, width = -(-height // stride), -(-width // stride)
                yield Block(
                    f"stage{stage}.block{index}",
                    stage,
                    channels_in,
                    inner,
                    channels,
                    self.cardinality // self.groups,
                    stride,
                    (height, width),
                    not index,
                )
                channels_in = channels

    def count_parameters(self) -> int:
        """Learned numbers, as the paper counts them: without running statistics."""
        stem = (9 * self.image[0] + 2) * STEM
        dense = (self.features + 1) * self.classes
        return stem + self.groups * sum(b.count_parameters() for b in self.blocks()) + dense
