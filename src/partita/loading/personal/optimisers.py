"""Adam and SGD as PyTorch has them, without the two seconds and the memory its own take to load."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

_BETAS, _EPSILON, _MOMENTUM = (0.9, 0.999), 1e-8, 0.9


class Sgd:
    """Stochastic gradient descent with momentum 0.9."""

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float) -> None:
        self._parameters = list(parameters)
        self._rate = rate
        self._velocity = [torch.zeros_like(parameter) for parameter in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient, and forget the gradients."""
        for parameter, velocity in zip(self._parameters, self._velocity, strict=True):
            if parameter.grad is not None:
                velocity.mul_(_MOMENTUM).add_(parameter.grad)
                parameter.sub_(velocity, alpha=self._rate)
                parameter.grad = None


class Adam:
    """Kingma and Ba, *Adam: A Method for Stochastic Optimization*, algorithm 1."""

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float) -> None:
        self._parameters = list(parameters)
        self._rate = rate
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]
        self._steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient, and forget the gradients."""
        self._steps += 1
        first, second = (1 - beta**self._steps for beta in _BETAS)
        for parameter, (mean, square) in zip(self._parameters, self._moments, strict=True):
            if parameter.grad is not None:
                mean.lerp_(parameter.grad, 1 - _BETAS[0])
                square.mul_(_BETAS[1]).addcmul_(parameter.grad, parameter.grad, value=1 - _BETAS[1])
                spread = square.sqrt().div_(math.sqrt(second)).add_(_EPSILON)
                parameter.addcdiv_(mean, spread, value=-self._rate / first)
                parameter.grad = None


OPTIMISERS: dict[str, type[Sgd] | type[Adam]] = {"adam": Adam, "sgd": Sgd}
