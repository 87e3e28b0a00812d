"""A separable network as a module of PyTorch, for training under policies that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from partita.separable.definition import define
from partita.separable.policy import Exchange, Policy, silent
from partita.separable.receive import add_messages
from partita.separable.residual import AnyLayer, Block, Conv, Norm, Pool, ResidualNetwork, Shape

#: Grouped 1x1 convolutions of 32 x 32 maps take 2.4 times as long with channels before rows, and
#: normalisations and sums no less (PyTorch 2.13, one core, forward and back).
_LAYOUT = torch.channels_last


@dataclass(frozen=True)
class Losses:
    """Messages that do not arrive in training.

    Attributes:
        share: Of the messages of each picture.
    """

    share: float
    draw: torch.Generator

    def arrived(self, count: int) -> Tensor:
        """1 for each picture whose message arrives, else 0, (N, 1, 1, 1)."""
        return (torch.rand(count, 1, 1, 1, generator=self.draw) >= self.share).float()


class SeparableNet(nn.Module):
    """Takes images and a policy; weights are shared by all policies.

    Features of all groups lie one after the other along the channels, so that a group of
    convolutions is one grouped convolution.

    Args:
        seed: Of the first weights.
    """

    def __init__(self, network: ResidualNetwork, *, seed: int = 0) -> None:
        super().__init__()
        self.architecture = network
        layers = _Layers(self, network.groups, torch.Generator().manual_seed(seed))
        define(network, silent(network), network.image, layers)
        self.lay_out(_LAYOUT)

    def lay_out(self, layout: torch.memory_format) -> None:
        """Say how weights and features lie in memory; answers are the same, to rounding."""
        self._layout = layout
        self.to(memory_format=layout)  # type: ignore[call-overload]

    @classmethod
    def of(cls, network: ResidualNetwork, weights: Mapping[str, npt.NDArray[np.float32]]) -> Self:
        """A network with these weights, by the names of its state.

        Raises:
            RuntimeError: One is of another shape.
        """
        net = cls(network)
        state = {name: torch.tensor(value) for name, value in weights.items()}
        net.load_state_dict({**net.state_dict(), **state})
        return net

    def fit_statistics(self, images: Tensor) -> None:
        """Standardise inputs by the mean and deviation of these, (N, C, H, W) from 0 to 1.

        A network that does not standardise stays as it is.
        """
        if not self.architecture.standardises:
            return
        stem = self.get_submodule("stem")
        deviation, mean = torch.std_mean(images, (0, 2, 3))
        stem.get_buffer("mean").copy_(mean[:, None, None])
        stem.get_buffer("deviation").copy_(deviation.clamp_min(1e-3)[:, None, None])

    def forward(
        self, images: Tensor, policy: Policy | None = None, losses: Losses | None = None
    ) -> Tensor:
        """The logits (N, classes) of images (N, C, H, W) from 0 to 1.

        Args:
            policy: Without one nothing is sent.
            losses: Messages that do not arrive; all do without.

        Raises:
            ModelError: The policy is for another network.
        """
        chosen = silent(self.architecture) if policy is None else policy
        operations = _Forward(self, self.architecture.groups, losses)
        pictures = images.contiguous(memory_format=self._layout)
        return define(self.architecture, chosen, pictures, operations)


class _Layers:
    """The definition's operations on shapes of a group: adds the layers to a module."""

    def __init__(self, root: nn.Module, groups: int, draw: torch.Generator) -> None:
        self._root = root
        self._groups = groups
        self._draw = draw

    def standardise(self, image: Shape) -> Shape:
        _place(self._root, "stem", stem := nn.Module())
        for name, value in (("mean", 0.5), ("deviation", 0.25)):
            stem.register_buffer(name, torch.full((image[0], 1, 1), value))
        return image

    def common(self, x: Shape, layer: AnyLayer) -> Shape:
        return self._add(x, layer, 1)

    def spread(self, x: Shape) -> Shape:
        return x

    def own(self, x: Shape, layer: AnyLayer) -> Shape:
        return self._add(x, layer, self._groups)

    def _add(self, x: Shape, layer: AnyLayer, parts: int) -> Shape:
        if isinstance(layer, Conv):
            conv = nn.Conv2d(
                parts * x[0],
                parts * layer.channels,
                layer.kernel,
                layer.stride,
                layer.pad,
                layer.dilation,
                parts * layer.paths,
                layer.has_bias,
            )
            # He et al. 2015, over what a filter's outputs reach.
            reach = conv.out_channels * conv.weight[0, 0].numel() / conv.groups
            with torch.no_grad():
                conv.weight.normal_(0.0, (2 / reach) ** 0.5, generator=self._draw)
                if conv.bias is not None:
                    conv.bias.zero_()
            _place(self._root, layer.name, conv)
        elif isinstance(layer, Norm):
            _place(self._root, layer.name, nn.BatchNorm2d(parts * x[0], layer.epsilon))
        return layer.follow(x)

    def join(self, x: Shape, y: Shape, block: Block) -> Shape:
        return x

    def receive(self, x: Shape, sent: Shape, exchange: Exchange, name: str) -> Shape:
        return x

    def first(self, x: Shape) -> Shape:
        return x

    def classify(self, x: Shape, name: str, classes: int) -> Shape:
        dense = nn.Linear(x[0], classes)
        bound = x[0] ** -0.5
        with torch.no_grad():
            for values in (dense.weight, dense.bias):
                values.uniform_(-bound, bound, generator=self._draw)
        _place(self._root, name, dense)
        return (classes, 1, 1)


class _Forward:
    """The definition's operations on tensors (N, groups * channels, H, W).

    What a normalisation has made is overwritten by the ReLU or the sum behind it: its gradient
    needs what it read, and memory is what bounds these networks.
    """

    def __init__(self, root: nn.Module, groups: int, losses: Losses | None) -> None:
        self._root = root
        self._groups = groups
        self._losses = losses
        self._normed: Tensor | None = None

    def standardise(self, image: Tensor) -> Tensor:
        stem = self._root.get_submodule("stem")
        return (image - stem.get_buffer("mean")) / stem.get_buffer("deviation")

    def common(self, x: Tensor, layer: AnyLayer) -> Tensor:
        return self.own(x, layer)

    def spread(self, x: Tensor) -> Tensor:
        return torch.cat([x] * self._groups, 1)  # unlike repeat, it keeps the layout

    def own(self, x: Tensor, layer: AnyLayer) -> Tensor:
        if isinstance(layer, Conv):
            return self._apply(layer.name, x)
        if isinstance(layer, Norm):
            self._normed = self._apply(layer.name, x)
            return self._normed
        if not isinstance(layer, Pool):
            return functional.relu(x, inplace=x is self._normed)
        if layer.kind == "max":
            return functional.max_pool2d(
                x, layer.kernel, layer.stride, layer.pad, ceil_mode=layer.is_up
            )
        return functional.avg_pool2d(
            x, layer.kernel, layer.stride, layer.pad, count_include_pad=False
        )

    def join(self, x: Tensor, y: Tensor, block: Block) -> Tensor:
        total = x.add_(y) if x is self._normed else x + y
        return functional.relu(total, inplace=True) if block.is_rectified else total

    def receive(self, x: Tensor, sent: Tensor, exchange: Exchange, name: str) -> Tensor:
        arrived = None
        if self._losses is not None:
            arrived = [self._losses.arrived(len(x)) for _ in exchange.messages()]
        return add_messages(x, sent, exchange, self._groups, arrived)

    def first(self, x: Tensor) -> Tensor:
        return x[:, : x.shape[1] // self._groups]

    def classify(self, x: Tensor, name: str, classes: int) -> Tensor:
        return self._apply(name, x.mean((2, 3)))

    def _apply(self, name: str, x: Tensor) -> Tensor:
        layer: Tensor = self._root.get_submodule(name)(x)
        return layer


def _place(root: nn.Module, name: str, layer: nn.Module) -> None:
    """Add a layer under a name with dots."""
    *path, last = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    root.add_module(last, layer)
