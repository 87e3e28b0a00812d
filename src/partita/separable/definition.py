"""The network, stated once: modules of PyTorch and nodes of ONNX both follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from partita.separable.policy import Exchange, Policy
from partita.separable.residual import AnyLayer, Block, ResidualNetwork

#: Features: of all groups, or those that all have in common.
Features = TypeVar("Features")


#: The name of the layer that answers.
DENSE = "fc"


class Operations(Protocol[Features]):
    """What the definition is made of."""

    def standardise(self, image: Features) -> Features:
        """(x - mean) / deviation of each channel of the image."""
        ...

    def common(self, x: Features, layer: AnyLayer) -> Features:
        """A layer with the same weights for every group, or of group 0 alone."""
        ...

    def spread(self, x: Features) -> Features:
        """Features of all groups, the same for each of them."""
        ...

    def own(self, x: Features, layer: AnyLayer) -> Features:
        """A layer of each group, with weights of its own."""
        ...

    def join(self, x: Features, y: Features, block: Block) -> Features:
        """The sum that ends a block, and its ReLU."""
        ...

    def receive(self, x: Features, sent: Features, exchange: Exchange, name: str) -> Features:
        """What comes from other groups, added to the features."""
        ...

    def first(self, x: Features) -> Features:
        """The features of group 0."""
        ...

    def classify(self, x: Features, name: str, classes: int) -> Features:
        """Mean over positions and a dense layer."""
        ...


def define(
    network: ResidualNetwork, policy: Policy, image: Features, operations: Operations[Features]
) -> Features:
    """The logits of an image.

    Features are taken, and what has come is added, behind the sum and ReLU that end a block. The
    paper does not say where; here it is so in training and after it.

    Raises:
        ModelError: The policy is for another network.
    """
    exchanges = policy.exchanges(network)
    taken = {exchange.taken: exchange for exchange in exchanges}
    added = {exchange.added: exchange for exchange in exchanges}
    x = operations.standardise(image) if network.standardises else image
    x = _chain(operations.common, x, network.stem)
    sent = x = operations.spread(x)
    for place, block in enumerate(network.blocks()):
        shortcut = _chain(operations.own, x, block.shortcut)
        x = operations.join(_chain(operations.own, x, block.branch), shortcut, block)
        if place in taken:
            sent = x
        if place in added:
            x = operations.receive(x, sent, added[place], f"{block.name}.received")
    x = _chain(operations.common, operations.first(x), network.head)
    return operations.classify(x, DENSE, network.classes)


def _chain(
    apply: Callable[[Features, AnyLayer], Features], x: Features, layers: Iterable[AnyLayer]
) -> Features:
    for layer in layers:
        x = apply(x, layer)
    return x
