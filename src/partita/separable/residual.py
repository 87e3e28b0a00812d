"""Networks of residual blocks whose groups compute by themselves: what all of them share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

import msgspec

from partita.zoo.extents import slide

#: Channels, height and width.
Shape = tuple[int, int, int]
#: Along height and width.
Pair = tuple[int, int]


class Layer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One layer; channels are of one group."""

    name: str

    def follow(self, shape: Shape) -> Shape:
        """The shape of its output."""
        return shape

    def count_macs(self, shape: Shape) -> int:
        """Multiply-accumulates on an input of a shape."""
        return 0

    def count_parameters(self, channels: int) -> int:
        """Learned numbers, on an input of so many channels."""
        return 0


class Conv(Layer, frozen=True, tag=True, kw_only=True):
    """A convolution.

    Attributes:
        channels: Of its output.
        pad: Zeros on both sides.
        paths: Groups of its channels that do not see each other.
        has_bias: Whether a number is added per channel.
    """

    channels: int
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilation: int = 1
    paths: int = 1
    has_bias: bool = False

    def follow(self, shape: Shape) -> Shape:
        """Its channels at the places of its window."""
        reach = [self.dilation * (extent - 1) + 1 for extent in self.kernel]
        height, width = slide(shape[1:], reach, self.stride, (self.pad, self.pad))
        return (self.channels, height, width)

    def count_macs(self, shape: Shape) -> int:
        """One for each weight and place."""
        return self._count_weights(shape[0]) * math.prod(self.follow(shape)[1:])

    def count_parameters(self, channels: int) -> int:
        """Weights, and biases if it has any."""
        return self._count_weights(channels) + self.has_bias * self.channels

    def _count_weights(self, channels: int) -> int:
        return channels // self.paths * self.channels * math.prod(self.kernel)


class Norm(Layer, frozen=True, tag=True, kw_only=True):
    """Batch normalisation."""

    epsilon: float = 1e-5

    def count_parameters(self, channels: int) -> int:
        """A scale and a shift for each channel; running statistics are not learned."""
        return 2 * channels


class Relu(Layer, frozen=True, tag=True, kw_only=True):
    """max(0, x)."""


class Pool(Layer, frozen=True, tag=True, kw_only=True):
    """The greatest or the mean of each window; what is padded does not count."""

    kind: Literal["max", "mean"]
    kernel: Pair
    stride: Pair
    pad: Pair = (0, 0)
    is_up: bool = False

    def follow(self, shape: Shape) -> Shape:
        """The places of its window, rounded down or up."""
        pads = (self.pad, self.pad)
        height, width = slide(shape[1:], self.kernel, self.stride, pads, is_up=self.is_up)
        return (shape[0], height, width)


AnyLayer = Conv | Norm | Relu | Pool


class Block(msgspec.Struct, frozen=True):
    """Layers whose output is added to what they read, or to a projection of it.

    Attributes:
        stage: Number of its stage, from 0.
        shape_in: Of a group's features before it.
        branch: What is added.
        shortcut: To what it is added; to the input itself where there is none.
        is_rectified: Whether the sum goes through a ReLU.
    """

    name: str
    stage: int
    shape_in: Shape
    branch: tuple[AnyLayer, ...]
    shortcut: tuple[AnyLayer, ...] = ()
    is_rectified: bool = True

    @property
    def shape(self) -> Shape:
        """Of a group's features behind it."""
        return shape_behind(self.branch, self.shape_in)

    @property
    def channels(self) -> int:
        """Of a group's features behind it."""
        return self.shape[0]

    @property
    def size(self) -> Pair:
        """Height and width behind it."""
        return self.shape[1:]

    @property
    def projects(self) -> bool:
        """Whether its shortcut has layers."""
        return bool(self.shortcut)

    def count_macs(self) -> int:
        """Multiply-accumulates of one group, without the shortcut's."""
        return sum(layer.count_macs(shape) for layer, shape in walk(self.branch, self.shape_in))

    def count_parameters(self) -> int:
        """Learned numbers of one group."""
        return sum(count_parameters(part, self.shape_in) for part in (self.branch, self.shortcut))


class ResidualNetwork(ABC):
    """Blocks between a stem, which every group computes by itself, and what group 0 answers with.

    Attributes:
        groups: Parts that may be on devices of their own; 1 is the plain network.
        classes: Outputs.
        image: Shape of an input.
        standardises: Whether the stem starts with (x - mean) / deviation of each channel.
    """

    groups: int
    classes: int
    image: Shape
    standardises: ClassVar[bool]

    @property
    @abstractmethod
    def stem(self) -> tuple[AnyLayer, ...]:
        """What every group computes of the image, with the same weights."""

    @property
    @abstractmethod
    def head(self) -> tuple[AnyLayer, ...]:
        """What group 0 computes of its features; their mean goes to the dense layer."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All blocks, in order."""

    @property
    @abstractmethod
    def stages(self) -> tuple[int, ...]:
        """Blocks of each stage."""

    def count_parameters(self) -> int:
        """Learned numbers, as the paper counts them: without running statistics."""
        blocks = list(self.blocks())
        behind = shape_behind(self.head, blocks[-1].shape)[0]
        total = self.groups * sum(block.count_parameters() for block in blocks)
        total += count_parameters(self.stem, self.image)
        total += count_parameters(self.head, blocks[-1].shape)
        return total + (behind + 1) * self.classes


def walk(layers: Iterable[AnyLayer], shape: Shape) -> Iterator[tuple[AnyLayer, Shape]]:
    """Each layer of a chain with the shape that it reads."""
    for layer in layers:
        yield layer, shape
        shape = layer.follow(shape)


def shape_behind(layers: Iterable[AnyLayer], shape: Shape) -> Shape:
    """What a chain of layers makes of a shape."""
    for layer in layers:
        shape = layer.follow(shape)
    return shape


def count_parameters(layers: Iterable[AnyLayer], shape: Shape) -> int:
    """Learned numbers of a chain of layers."""
    return sum(layer.count_parameters(given[0]) for layer, given in walk(layers, shape))
