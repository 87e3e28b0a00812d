"""A separable network as a module of PyTorch, for training under policies that change."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from partita.separable.architecture import Architecture
from partita.separable.definition import define
from partita.separable.policy import Exchange, Policy, silent


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

    def __init__(self, architecture: Architecture, *, seed: int = 0) -> None:
        super().__init__()
        self.architecture = architecture
        draw = torch.Generator().manual_seed(seed)
        plan = silent(architecture)
        define(architecture, plan, architecture.image[0], _Layers(self, architecture.groups, draw))
        stem = self.get_submodule("stem")
        for name, value in (("mean", 0.5), ("deviation", 0.25)):
            stem.register_buffer(name, torch.full((architecture.image[0], 1, 1), value))

    def fit_statistics(self, images: Tensor) -> None:
        """Standardise inputs by the mean and deviation of these, (N, C, H, W) from 0 to 1."""
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
            ModelError: The policy is for another architecture.
        """
        chosen = silent(self.architecture) if policy is None else policy
        operations = _Forward(self, self.architecture.groups, losses)
        return define(self.architecture, chosen, images, operations)


class _Layers:
    """The definition's operations on numbers of channels: adds the layers to a module."""

    def __init__(self, root: nn.Module, groups: int, draw: torch.Generator) -> None:
        self._root = root
        self._groups = groups
        self._draw = draw

    def conv(
        self, x: int, name: str, channels: int, *, kernel: int, stride: int, paths: int
    ) -> int:
        parts = self._groups
        layer = nn.Conv2d(
            parts * x,
            parts * channels,
            kernel,
            stride,
            kernel // 2,
            groups=parts * paths,
            bias=False,
        )
        self._add_conv(name, layer)
        return channels

    def norm(self, x: int, name: str) -> int:
        _place(self._root, name, nn.BatchNorm2d(self._groups * x))
        return x

    def relu(self, x: int, name: str) -> int:
        return x

    def add(self, x: int, y: int, name: str) -> int:
        return x

    def stem(self, image: int, channels: int) -> int:
        self._add_conv("stem.conv", nn.Conv2d(image, channels, 3, padding=1, bias=False))
        _place(self._root, "stem.bn", nn.BatchNorm2d(channels))
        return channels

    def receive(self, x: int, sent: int, exchange: Exchange, name: str) -> int:
        return x

    def classify(self, x: int, name: str, classes: int) -> int:
        dense = nn.Linear(x, classes)
        bound = x**-0.5
        with torch.no_grad():
            for values in (dense.weight, dense.bias):
                values.uniform_(-bound, bound, generator=self._draw)
        _place(self._root, name, dense)
        return classes

    def _add_conv(self, name: str, layer: nn.Conv2d) -> None:
        # He et al. 2015, over what a filter's outputs reach.
        reach = layer.out_channels * layer.weight[0, 0].numel() / layer.groups
        with torch.no_grad():
            layer.weight.normal_(0.0, (2 / reach) ** 0.5, generator=self._draw)
        _place(self._root, name, layer)


class _Forward:
    """The definition's operations on tensors (N, groups * channels, H, W)."""

    def __init__(self, root: nn.Module, groups: int, losses: Losses | None) -> None:
        self._root = root
        self._groups = groups
        self._losses = losses

    def conv(
        self, x: Tensor, name: str, channels: int, *, kernel: int, stride: int, paths: int
    ) -> Tensor:
        return self._apply(name, x)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return self._apply(name, x)

    def relu(self, x: Tensor, name: str) -> Tensor:
        return functional.relu(x)

    def add(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        return x + y

    def stem(self, image: Tensor, channels: int) -> Tensor:
        stem = self._root.get_submodule("stem")
        x = (image - stem.get_buffer("mean")) / stem.get_buffer("deviation")
        x = functional.relu(self._apply("stem.bn", self._apply("stem.conv", x)))
        return x.repeat(1, self._groups, 1, 1)

    def receive(self, x: Tensor, sent: Tensor, exchange: Exchange, name: str) -> Tensor:
        shape = (len(x), self._groups, -1, *x.shape[2:])
        sums, source = list(x.view(shape).unbind(1)), sent.view(shape)
        for sender, receiver in exchange.messages():
            message = source[:, sender, : exchange.channels]
            if exchange.halves:
                message = message.half().float()
            if self._losses is not None:
                message = message * self._losses.arrived(len(x))
            missing = sums[receiver].shape[1] - exchange.channels
            sums[receiver] = sums[receiver] + functional.pad(message, (0, 0, 0, 0, 0, missing))
        return torch.cat(sums, 1)

    def classify(self, x: Tensor, name: str, classes: int) -> Tensor:
        features = x[:, : x.shape[1] // self._groups]
        return self._apply(name, features.mean((2, 3)))

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
