"""The network, stated once: modules of PyTorch and nodes of ONNX both follow it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from partita.separable.architecture import STEM, Architecture, Block
from partita.separable.policy import Exchange, Policy

#: Features of all groups.
Features = TypeVar("Features")


class Operations(Protocol[Features]):
    """What the definition is made of; channels are of one group."""

    def conv(
        self, x: Features, name: str, channels: int, *, kernel: int, stride: int, paths: int
    ) -> Features:
        """A convolution without bias, by each group with weights of its own."""
        ...

    def norm(self, x: Features, name: str) -> Features:
        """Batch normalisation."""
        ...

    def relu(self, x: Features, name: str) -> Features:
        """max(0, x)."""
        ...

    def add(self, x: Features, y: Features, name: str) -> Features:
        """The sum."""
        ...

    def stem(self, image: Features, channels: int) -> Features:
        """Convolution, normalisation and ReLU of the image, the same for every group."""
        ...

    def receive(self, x: Features, sent: Features, exchange: Exchange, name: str) -> Features:
        """What comes from other groups, added to the features."""
        ...

    def classify(self, x: Features, name: str, classes: int) -> Features:
        """Mean over positions and a dense layer, of group 0."""
        ...


def define(
    architecture: Architecture, policy: Policy, image: Features, operations: Operations[Features]
) -> Features:
    """The logits of an image.

    Features are taken, and what has come is added, behind the ReLU that ends a block. The paper
    does not say where; here it is so in training and after it.

    Raises:
        ModelError: The policy is for another architecture.
    """
    exchanges = policy.exchanges(architecture)
    taken = {exchange.taken: exchange for exchange in exchanges}
    added = {exchange.added: exchange for exchange in exchanges}
    sent: Features = image
    x = operations.stem(image, STEM)
    for place, block in enumerate(architecture.blocks()):
        x = _define_block(block, x, operations)
        if place in taken:
            sent = x
        if place in added:
            x = operations.receive(x, sent, added[place], f"{block.name}.received")
    return operations.classify(x, "fc", architecture.classes)


def _define_block(block: Block, x: Features, op: Operations[Features]) -> Features:
    """A bottleneck with its stride in the 3x3 convolution."""
    name, shortcut = block.name, x
    if block.projects:
        shortcut = op.conv(
            x, f"{name}.shortcut.conv", block.channels, kernel=1, stride=block.stride, paths=1
        )
        shortcut = op.norm(shortcut, f"{name}.shortcut.bn")
    x = op.conv(x, f"{name}.conv1", block.inner, kernel=1, stride=1, paths=1)
    x = op.relu(op.norm(x, f"{name}.bn1"), f"{name}.relu1")
    x = op.conv(x, f"{name}.conv2", block.inner, kernel=3, stride=block.stride, paths=block.paths)
    x = op.relu(op.norm(x, f"{name}.bn2"), f"{name}.relu2")
    x = op.conv(x, f"{name}.conv3", block.channels, kernel=1, stride=1, paths=1)
    x = op.norm(x, f"{name}.bn3")
    return op.relu(op.add(x, shortcut, f"{name}.add"), f"{name}.relu3")
