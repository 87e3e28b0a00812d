"""Gradients of small networks on one core, written into PyTorch's own memory.

For batches of 64 and layers of some hundred neurons most of PyTorch's time is not arithmetic. The
same products by NumPy take about half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Batch = npt.NDArray[np.float32]


class Layers:
    """Dense layers with ReLU between them, as views of a PyTorch network's weights.

    Args:
        network: Holds linear layers; whatever else it holds is left to the caller, but for the
            ReLU after each layer except the last.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        self.weights: list[Batch] = []
        self.biases: list[Batch] = []
        self.slopes: list[tuple[Batch, Batch]] = []
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear):
                self.weights.append(_view(layer.weight))
                self.biases.append(_view(layer.bias))
                self.slopes.append((_slope(layer.weight), _slope(layer.bias)))
        self._inputs: list[Batch] = []

    def run(self, inputs: Batch) -> Batch:
        """Return what the last layer gives, shape (batch, outputs), and keep what led to it."""
        self._inputs = []
        found = inputs
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if self._inputs:
                np.maximum(found, 0.0, out=found)
            self._inputs.append(found)
            found = found @ weight.T
            found += bias
        return found

    def back(self, slope: Batch, *, keep: bool = True) -> Batch:
        """Return the gradient by the inputs of the last run, shape (batch, inputs).

        Args:
            slope: Gradient by the outputs of the last run.
            keep: Whether the gradients by the weights are written where the optimizer finds them.
        """
        for number in reversed(range(len(self.weights))):
            before = self._inputs[number]
            if keep:
                weight, bias = self.slopes[number]
                np.matmul(slope.T, before, out=weight)
                np.sum(slope, axis=0, out=bias)
            slope = slope @ self.weights[number]
            if number:
                slope *= before > 0.0
        return slope


def side_by_side(parts: Sequence[Batch]) -> Batch:
    """Return the columns of several arrays in one."""
    return np.concatenate(parts, axis=1)


def _view(weight: torch.Tensor) -> Any:
    return weight.detach().numpy()


def _slope(weight: torch.Tensor) -> Any:
    weight.grad = torch.zeros_like(weight)
    return weight.grad.numpy()
