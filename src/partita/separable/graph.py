"""A separable network as ONNX: every group's layers are nodes of their own.

A message is ordinary nodes: the sender's slice and cast, the receiver's cast, zeros for the
channels that were not sent, and the sum. So any planner that puts parallel branches on different
devices places groups, and what travels between them is what the accounting counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from partita.errors import ModelError
from partita.separable.architecture import Architecture
from partita.separable.definition import define
from partita.separable.policy import Exchange, Policy
from partita.zoo.builder import Builder
from partita.zoo.weights import DrawnWeights, GivenWeights

Weights = Mapping[str, npt.NDArray[np.float32]]
#: The names of one tensor of each group.
Names = tuple[str, ...]
INPUT = "input"


def build_graph(
    architecture: Architecture,
    policy: Policy,
    weights: Weights | None = None,
    *,
    seed: int = 0,
    name: str = "separable",
) -> onnx.ModelProto:
    """The network under a policy, for one image.

    Every group computes the stem by itself, with the same weights: the image is a fifth of the
    stem's features. What no answer depends on is left out: group 0 alone answers.

    Args:
        weights: Of :class:`partita.separable.module.SeparableNet`, by its names; drawn from the
            seed unless given.

    Raises:
        ModelError: The policy, or the weights, are for another architecture.
    """
    drawn = DrawnWeights(seed)
    given = None if weights is None else GivenWeights(dict(_of_groups(architecture, weights)))
    builder = Builder(name, weights=given or drawn)
    image = builder.add_input(INPUT, (1, *architecture.image))
    operations = _Nodes(builder, architecture.groups)
    (logits,) = define(architecture, policy, (image,) * architecture.groups, operations)
    return _without_unread(builder.finish(logits))


def _of_groups(
    architecture: Architecture, weights: Weights
) -> list[tuple[str, npt.NDArray[np.float32]]]:
    """Weights by the names of nodes: each group's part of those that groups have apart."""
    parts = []
    for key, value in weights.items():
        name, leaf = key.rsplit(".", 1)
        if not name.startswith("stage") or leaf == "num_batches_tracked":
            parts.append((key, value))
            continue
        if len(value) % architecture.groups:
            raise ModelError(f"weight {key} {value.shape} is not of {architecture}")
        for group, part in enumerate(np.split(value, architecture.groups)):
            parts.append((f"{_of(name, group)}.{leaf}", part))
    return parts


def _without_unread(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without nodes and weights that its outputs do not depend on."""
    graph = model.graph
    read = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if read.intersection(node.output):
            kept.append(node)
            read.update(node.input)
    weights = [weight for weight in graph.initializer if weight.name in read]
    for field, values in ((graph.node, kept[::-1]), (graph.initializer, weights)):
        del field[:]
        field.extend(values)
    return model


def _of(name: str, group: int) -> str:
    return f"{name}.g{group}"


class _Nodes:
    """The definition's operations as nodes of a builder."""

    def __init__(self, builder: Builder, groups: int) -> None:
        self._builder = builder
        self._groups = range(groups)

    def conv(
        self, x: Names, name: str, channels: int, *, kernel: int, stride: int, paths: int
    ) -> Names:
        return tuple(
            self._builder.conv(
                x[g], _of(name, g), channels, kernel=kernel, stride=stride, groups=paths
            )
            for g in self._groups
        )

    def norm(self, x: Names, name: str) -> Names:
        return tuple(self._builder.batch_norm(x[g], _of(name, g)) for g in self._groups)

    def relu(self, x: Names, name: str) -> Names:
        return tuple(self._builder.relu(x[g], _of(name, g)) for g in self._groups)

    def add(self, x: Names, y: Names, name: str) -> Names:
        return tuple(self._builder.add(x[g], y[g], _of(name, g)) for g in self._groups)

    def stem(self, image: Names, channels: int) -> Names:
        builder = self._builder
        made = []
        for g in self._groups:
            x = builder.standardise(image[g], _of("stem", g), weights="stem")
            x = builder.conv(x, _of("stem.conv", g), channels, weights="stem.conv")
            x = builder.batch_norm(x, _of("stem.bn", g), weights="stem.bn")
            made.append(builder.relu(x, _of("stem.relu", g)))
        return tuple(made)

    def receive(self, x: Names, sent: Names, exchange: Exchange, name: str) -> Names:
        builder, received = self._builder, list(x)
        for sender, receiver in exchange.messages():
            message = self._message(sent[sender], exchange, f"{name}.from{sender}")
            received[receiver] = builder.add(x[receiver], message, _of(name, receiver))
        return tuple(received)

    def _message(self, x: str, exchange: Exchange, name: str) -> str:
        """The nodes on both sides of the wire."""
        builder = self._builder
        channels = builder.shapes[x][1]
        if exchange.channels < channels:
            x = builder.narrow(x, f"{name}.slice", exchange.channels)
        if exchange.halves:
            x = builder.cast(x, f"{name}.half", np.float16)
            x = builder.cast(x, f"{name}.float", np.float32)
        if exchange.channels < channels:
            x = builder.widen(x, f"{name}.pad", channels)
        return x

    def classify(self, x: Names, name: str, classes: int) -> Names:
        builder = self._builder
        mean = builder.flatten(builder.mean(x[0], f"{name}.mean"), f"{name}.flat")
        return (builder.dense(mean, name, classes),)
