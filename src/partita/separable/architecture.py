"""ResNeXts for small images, and their separable forms (sections 3.1 and 4.1, table 1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from partita.errors import ModelError
from partita.separable.residual import AnyLayer, Block, Conv, Norm, Pair, Relu, ResidualNetwork

#: Channels behind the stem, and of a group behind the first stage; each stage doubles the latter.
_STEM = 16
_FIRST = 64
STAGES = 3
#: Layers of a block, and layers beside blocks: the stem and the dense one.
_BLOCK_DEPTH, _OTHER_DEPTH = 3, 2
#: No network has as many layers, paths, channels of a path, groups or classes.
_MOST = 10_000
#: Three stages halve the extent twice.
_LEAST_SIZE = 4


@dataclass(frozen=True)
class Architecture(ResidualNetwork):
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
    standardises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("cardinality", "width", "groups", "classes"):
            if not 1 <= (number := getattr(self, name)) <= _MOST:
                raise ModelError(
                    f"{name} = {number}: allowed are whole numbers from 1 to {_MOST:,}",
                    subject=name,
                )
        per_block = STAGES * _BLOCK_DEPTH
        if self.cardinality * self.width > _MOST:
            raise ModelError(
                f"{self.cardinality} paths of {self.width} channels: allowed are {_MOST:,} channels"
                " in all",
                subject="width",
            )
        if not _OTHER_DEPTH < self.depth <= _MOST or (self.depth - _OTHER_DEPTH) % per_block:
            raise ModelError(
                f"depth = {self.depth}: allowed is {per_block} times the blocks of a stage, plus"
                f" {_OTHER_DEPTH}: 11, 20, 29... 56, 110, to {_MOST:,}",
                subject="depth",
            )
        if self.cardinality % self.groups:
            divisors = [g for g in range(1, self.cardinality + 1) if not self.cardinality % g]
            raise ModelError(
                f"groups = {self.groups}: allowed for {self.cardinality} paths are"
                f" {', '.join(map(str, divisors))}",
                subject="groups",
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
        form = re.fullmatch(r"(\d{1,9})x(\d{1,9})d-(\d{1,9})", text)
        if form is None:
            raise ModelError(f"architecture {text!r}: expected the form 8x16d-56")
        cardinality, width, depth = map(int, form.groups())
        return cls(depth, cardinality, width, groups, classes, image)

    def __str__(self) -> str:
        plain = f"{self.cardinality}x{self.width}d-{self.depth}"
        return plain if self.groups == 1 else f"{plain} in {self.groups} groups"

    @property
    def stages(self) -> tuple[int, ...]:
        """Blocks of each stage: as many in all of them."""
        return ((self.depth - _OTHER_DEPTH) // (STAGES * _BLOCK_DEPTH),) * STAGES

    @cached_property
    def stem(self) -> tuple[AnyLayer, ...]:
        """One convolution."""
        conv = Conv(name="stem.conv", channels=_STEM, kernel=(3, 3), pad=(1, 1))
        return (conv, Norm(name="stem.bn"), Relu(name="stem.relu"))

    @property
    def head(self) -> tuple[AnyLayer, ...]:
        """Nothing."""
        return ()

    def blocks(self) -> Iterator[Block]:
        """All blocks, in order."""
        return iter(self._chain)

    @cached_property
    def _chain(self) -> tuple[Block, ...]:
        """All blocks, made once: nothing is left to make in a step of training."""
        chain: list[Block] = []
        shape = (_STEM, *self.image[1:])
        for stage, count in enumerate(self.stages):
            channels = _FIRST << stage
            inner = (self.cardinality * self.width << stage) // self.groups
            for index in range(count):
                name = f"stage{stage}.block{index}"
                stride = (2, 2) if stage and not index else (1, 1)
                branch = _branch(name, inner, channels, stride, self.cardinality // self.groups)
                shortcut = () if index else _projection(f"{name}.shortcut", channels, stride)
                chain.append(Block(name, stage, shape, branch, shortcut))
                shape = chain[-1].shape
        return tuple(chain)


def _branch(name: str, inner: int, channels: int, stride: Pair, paths: int) -> tuple[AnyLayer, ...]:
    """A bottleneck with its stride in the 3x3 convolution."""
    return (
        Conv(name=f"{name}.conv1", channels=inner),
        Norm(name=f"{name}.bn1"),
        Relu(name=f"{name}.relu1"),
        Conv(
            name=f"{name}.conv2",
            channels=inner,
            kernel=(3, 3),
            stride=stride,
            pad=(1, 1),
            paths=paths,
        ),
        Norm(name=f"{name}.bn2"),
        Relu(name=f"{name}.relu2"),
        Conv(name=f"{name}.conv3", channels=channels),
        Norm(name=f"{name}.bn3"),
    )


def _projection(name: str, channels: int, stride: Pair) -> tuple[AnyLayer, ...]:
    conv = Conv(name=f"{name}.conv", channels=channels, stride=stride)
    return (conv, Norm(name=f"{name}.bn"))
