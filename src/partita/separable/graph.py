"""A separable network as ONNX: every group's layers are nodes of their own.

A message is ordinary nodes: the sender's slice and cast, the receiver's cast, zeros for the
channels that were not sent, and the sum. So any planner that puts parallel branches on different
devices places groups, and what travels between them is what the accounting counts.

What a group computes between two messages lies side by side, so that planners, whose stages are
ranges, can make one stage of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx

from partita.errors import ModelError
from partita.separable.definition import define
from partita.separable.policy import Exchange, Policy
from partita.separable.residual import AnyLayer, Block, Conv, Norm, Pool, ResidualNetwork
from partita.zoo.builder import Builder
from partita.zoo.weights import DrawnWeights, GivenWeights

Weights = Mapping[str, npt.NDArray[np.float32]]
#: The names of one tensor of each group.
Names = tuple[str, ...]
INPUT = "input"


def build_graph(
    network: ResidualNetwork,
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
        ModelError: The policy, or the weights, are for another network.
    """
    drawn = DrawnWeights(seed)
    given = None if weights is None else GivenWeights(dict(_of_groups(network, weights)))
    builder = Builder(name, weights=given or drawn)
    image = builder.add_input(INPUT, (1, *network.image))
    operations = _Nodes(builder)
    (logits,) = define(network, policy, (image,) * network.groups, operations)
    model = _without_unread(builder.finish(logits))
    _sort(model.graph, operations.turns)
    return model


def _of_groups(
    network: ResidualNetwork, weights: Weights
) -> list[tuple[str, npt.NDArray[np.float32]]]:
    """Weights by the names of nodes: each group's part of those that groups have apart."""
    parts = []
    for key, value in weights.items():
        name, leaf = key.rsplit(".", 1)
        if not name.startswith("stage") or leaf == "num_batches_tracked":
            parts.append((key, value))
            continue
        if len(value) % network.groups:
            raise ModelError(f"weight {key} {value.shape} is not of {network}")
        for group, part in enumerate(np.split(value, network.groups)):
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


def _sort(graph: onnx.GraphProto, turns: Mapping[str, tuple[int, int]]) -> None:
    """Put nodes in the order of their turns, in place.

    Args:
        turns: Of tensors; the nodes before one that have none belong to it.
    """
    turn, keys = (0, 0), []
    for number in range(len(graph.node) - 1, -1, -1):
        turn = turns.get(graph.node[number].output[0], turn)
        keys.append((turn, number))
    nodes = [graph.node[number] for _, number in sorted(keys)]
    del graph.node[:]
    graph.node.extend(nodes)


def _of(name: str, group: int) -> str:
    return f"{name}.g{group}"


class _Nodes:
    """The definition's operations as nodes of a builder; features are a name for each group.

    Attributes:
        turns: By tensor: in which block it is made, and by which group.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._block = 0
        self.turns: dict[str, tuple[int, int]] = {}

    def standardise(self, image: Names) -> Names:
        return self._made(
            self._builder.standardise(x, _of("stem", group), weights="stem")
            for group, x in enumerate(image)
        )

    def common(self, x: Names, layer: AnyLayer) -> Names:
        return self._made(
            self._add(each, layer, _of(layer.name, group), layer.name)
            for group, each in enumerate(x)
        )

    def spread(self, x: Names) -> Names:
        return x

    def own(self, x: Names, layer: AnyLayer) -> Names:
        return self._made(
            self._add(each, layer, _of(layer.name, group), _of(layer.name, group))
            for group, each in enumerate(x)
        )

    def _add(self, x: str, layer: AnyLayer, name: str, weights: str) -> str:
        builder = self._builder
        if isinstance(layer, Conv):
            return builder.conv(
                x,
                name,
                layer.channels,
                kernel=layer.kernel,
                stride=layer.stride,
                pad=layer.pad,
                dilation=layer.dilation,
                groups=layer.paths,
                bias=layer.has_bias,
                weights=weights,
            )
        if isinstance(layer, Norm):
            return builder.batch_norm(x, name, epsilon=layer.epsilon, weights=weights)
        if isinstance(layer, Pool):
            kernel, stride, pad = layer.kernel, layer.stride, layer.pad
            if layer.kind == "max":
                return builder.max_pool(
                    x, name, kernel=kernel, stride=stride, pad=pad, ceil=layer.is_up
                )
            return builder.average_pool(x, name, kernel=kernel, stride=stride, pad=pad)
        return builder.relu(x, name)

    def join(self, x: Names, y: Names, block: Block) -> Names:
        builder = self._builder
        sums = [
            builder.add(one, other, _of(f"{block.name}.add", group))
            for group, (one, other) in enumerate(zip(x, y, strict=True))
        ]
        made = self._made(sums)
        if block.is_rectified:
            made = self._made(
                builder.relu(x, _of(f"{block.name}.relu", g)) for g, x in enumerate(sums)
            )
        self._block += 1
        return made

    def receive(self, x: Names, sent: Names, exchange: Exchange, name: str) -> Names:
        builder, received = self._builder, list(x)
        for sender, receiver in exchange.messages():
            part = f"{name}.from{sender}"
            message = self._send(sent[sender], exchange, part)
            self.turns[message] = exchange.taken, sender
            message = self._expand(message, exchange, builder.shapes[x[receiver]][1], part)
            received[receiver] = builder.add(x[receiver], message, _of(name, receiver))
            self.turns[received[receiver]] = self._block, receiver
        return tuple(received)

    def _send(self, x: str, exchange: Exchange, name: str) -> str:
        """What travels."""
        builder = self._builder
        if exchange.channels < builder.shapes[x][1]:
            x = builder.narrow(x, f"{name}.slice", exchange.channels)
        return builder.cast(x, f"{name}.half", np.float16) if exchange.halves else x

    def _expand(self, x: str, exchange: Exchange, channels: int, name: str) -> str:
        """What is made of it where it comes to."""
        builder = self._builder
        if exchange.halves:
            x = builder.cast(x, f"{name}.float", np.float32)
        if exchange.channels < channels:
            x = builder.widen(x, f"{name}.pad", channels)
        return x

    def first(self, x: Names) -> Names:
        return x[:1]

    def classify(self, x: Names, name: str, classes: int) -> Names:
        builder = self._builder
        mean = builder.flatten(builder.mean(x[0], f"{name}.mean"), f"{name}.flat")
        return self._made((builder.dense(mean, name, classes),))

    def _made(self, tensors: Iterable[str]) -> Names:
        """Tensors, one of each group, noted as of this block."""
        names = tuple(tensors)
        self.turns.update((name, (self._block, group)) for group, name in enumerate(names))
        return names
