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
_MEAN_DECAY, _SQUARE_DECAY, _LEAST = 0.9, 0.999, 1e-8


class Layers:
    """Dense layers with ReLU between them, in the memory of a PyTorch network's weights.

    Args:
        network: Holds linear layers, whose weights are put side by side in memory; whatever else
            it holds is left to the caller, but for the ReLU after each layer except the last.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        layers = [one for one in network.modules() if isinstance(one, torch.nn.Linear)]
        tensors = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        self.flat: Batch = np.concatenate([_values(tensor).ravel() for tensor in tensors])
        self.slope: Batch = np.zeros_like(self.flat)
        own, slopes = _cut(self.flat, tensors), _cut(self.slope, tensors)
        for tensor, values in zip(tensors, own, strict=True):
            tensor.data = torch.from_numpy(values)
        self.weights, self.biases = own[::2], own[1::2]
        self.slopes = list(zip(slopes[::2], slopes[1::2], strict=True))
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
            keep: Whether the gradients by the weights are written to ``slope``.
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


class Adam:
    """Adam (Kingma and Ba 2015) with PyTorch's defaults, on weights that lie side by side.

    Args:
        layers: Whose weights are moved against their gradients.
        rate: Learning rate.
    """

    def __init__(self, layers: Layers, rate: float) -> None:
        self._layers = layers
        self._rate = rate
        self._mean = np.zeros_like(layers.flat)
        self._square = np.zeros_like(layers.flat)
        self._steps = 0

    def step(self) -> None:
        """Take one step by the gradients of the last backward pass."""
        slope = self._layers.slope
        self._steps += 1
        self._mean += np.float32(1 - _MEAN_DECAY) * (slope - self._mean)
        self._square *= np.float32(_SQUARE_DECAY)
        self._square += np.float32(1 - _SQUARE_DECAY) * slope * slope
        scale = np.sqrt(self._square)
        scale *= np.float32((1 - _SQUARE_DECAY**self._steps) ** -0.5)
        scale += np.float32(_LEAST)
        np.divide(self._mean, scale, out=scale)
        scale *= np.float32(self._rate / (1 - _MEAN_DECAY**self._steps))
        self._layers.flat -= scale


def follow(target: Layers, own: Layers, share: float) -> None:
    """Move a target network's weights by a share of the way to its own network's."""
    target.flat += np.float32(share) * (own.flat - target.flat)


def _values(tensor: torch.Tensor) -> Any:
    return tensor.detach().numpy()


def _cut(flat: Batch, tensors: Sequence[torch.Tensor]) -> list[Batch]:
    """Return views of a flat array with the shapes of tensors, one after the other."""
    ends = np.cumsum([tensor.numel() for tensor in tensors])[:-1]
    parts = np.split(flat, ends)
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
