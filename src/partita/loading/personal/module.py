"""A source graph as a module of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from partita.errors import BundleError, first_line
from partita.loading.personal.operators import OPERATORS
from partita.loading.write.trainable_source import TRAINED, SourceGraph
from partita.regions import Array


@dataclass(frozen=True)
class _Node:
    """One operator, free of the file; ``last_reads`` are the tensors that no later one reads."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: dict[str, Any]
    last_reads: tuple[str, ...]


class TrainableChild(nn.Module):
    """The last child, differentiable; its parameters are the weights that may be trained.

    Args:
        source: A source graph of one output. Its weights are copied, and nothing of it is kept.

    Raises:
        BundleError: It has an operator that cannot be trained, or several outputs.
    """

    def __init__(self, source: SourceGraph) -> None:
        super().__init__()
        graph = source.model.graph
        _check(graph)
        self._nodes = _list_nodes(graph)
        self._inputs = [value.name for value in graph.input]
        self._output = graph.output[0].name
        self._constants: dict[str, Tensor] = {}
        self._names: list[str] = []
        self.weights = nn.ParameterList()
        for weight in graph.initializer:
            tensor = torch.from_numpy(source.read(weight))
            if weight.name.startswith(TRAINED):
                self._names.append(weight.name)
                self.weights.append(nn.Parameter(tensor))
            else:
                self._constants[weight.name] = tensor

    def forward(self, inputs: Sequence[Tensor], *, logits: bool = False) -> Tensor:
        """The output for a batch.

        Args:
            inputs: In the graph's order; samples along the first axis of each.
            logits: Whether a softmax at the very end is left out.

        Raises:
            BundleError: An operator cannot compute this in a batch.
        """
        held: dict[str, Tensor] = dict(zip(self._inputs, inputs, strict=True))
        held.update(self._constants)
        held.update(zip(self._names, self.weights, strict=True))
        for node in self._nodes:
            if logits and node.op == "Softmax" and node.output == self._output:
                return held[node.inputs[0]]
            args = [held[name] if name else None for name in node.inputs]
            try:
                held[node.output] = OPERATORS[node.op](args, node.attrs)
            except (NotImplementedError, RuntimeError) as error:
                raise BundleError(
                    f"Operator {node.op} of the last child cannot be trained: {first_line(error)}."
                    " Name fewer trainable layers, or split the model so that it lies before them.",
                    subject=node.op,
                ) from None
            for name in node.last_reads:
                del held[name]
        return held[self._output]

    def trained(self) -> dict[str, Array]:
        """The parameters by the model's names; their memory is the module's own."""
        return {
            name.removeprefix(TRAINED): weight.detach().numpy()
            for name, weight in zip(self._names, self.weights, strict=True)
        }


def _check(graph: onnx.GraphProto) -> None:
    if len(graph.output) != 1:
        raise BundleError(
            f"The last child has {len(graph.output)} outputs: one can be trained. Split the model"
            " so that it has one."
        )
    for node in graph.node:
        known = node.op_type in OPERATORS and node.domain in ("", "ai.onnx")
        if not known or len(node.output) != 1:
            raise BundleError(
                f"Operator {node.op_type} of the last child cannot be trained: known are"
                f" {', '.join(OPERATORS)}. Split the model so that it lies before the last child.",
                subject=node.op_type,
            )


def _list_nodes(graph: onnx.GraphProto) -> list[_Node]:
    last = {name: place for place, node in enumerate(graph.node) for name in node.input if name}
    kept = {value.name for value in graph.output}
    return [
        _Node(
            node.op_type,
            tuple(node.input),
            node.output[0],
            read_attributes(node),
            tuple(n for n in dict.fromkeys(node.input) if last.get(n) == place and n not in kept),
        )
        for place, node in enumerate(graph.node)
    ]


def read_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes by name, texts decoded."""
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in values.items()
    }
