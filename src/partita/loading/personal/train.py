"""Training a module on features: a plain loop, the same for every module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from partita.errors import RunError
from partita.loading.personal.optimisers import OPTIMISERS
from partita.loading.personal.options import PersonalOptions, Score

#: From inputs, samples first, to outputs; for ``cross_entropy`` (samples, classes).
Forward = Callable[[list[Tensor]], Tensor]


def train(
    forward: Forward,
    parameters: Sequence[nn.Parameter],
    inputs: Sequence[Tensor],
    labels: Tensor,
    options: PersonalOptions,
) -> None:
    """Train ``parameters`` in place.

    Args:
        forward: Computes the outputs.
        parameters: What is trained; nothing else changes.
        inputs: Samples along the first axis of each.
        labels: Classes (samples,), or wanted outputs (samples, ...).
        options: How.

    Raises:
        RunError: The loss is no longer a number.
    """
    optimiser = OPTIMISERS[options.optimiser](parameters, options.rate)
    draw = torch.Generator().manual_seed(options.seed)
    for epoch in range(options.epochs):
        for chosen in _batches(torch.randperm(len(labels), generator=draw), options.batch):
            outputs = forward([array[chosen] for array in inputs])
            loss = _loss(outputs, labels[chosen], options)
            if not math.isfinite(loss.item()):
                raise RunError(
                    f"Training: the loss is {loss.item()} in epoch {epoch + 1} of {options.epochs}"
                    f" at rate {options.rate}. Lower the rate."
                )
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def divide(count: int, options: PersonalOptions) -> tuple[Tensor | slice, Tensor | slice]:
    """Return which samples are held out and which are trained on; all are both where none are.

    Args:
        count: Number of samples.
        options: Their share and the seed.
    """
    held = round(options.held_out * count)
    if not 0 < held < count:
        return slice(None), slice(None)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(options.seed))
    return order[:held], order[held:]


def score(
    forward: Forward, inputs: Sequence[Tensor], labels: Tensor, options: PersonalOptions
) -> Score:
    """Return how good the answers are; arguments as for :func:`train`."""
    lost, right = 0.0, 0
    with torch.no_grad():
        for chosen in _batches(torch.arange(len(labels)), options.batch):
            outputs = forward([array[chosen] for array in inputs])
            lost += _loss(outputs, labels[chosen], options).item() * len(chosen)
            if options.loss == "cross_entropy":
                right += int((outputs.flatten(1).argmax(1) == labels[chosen]).sum())
    accuracy = right / len(labels) if options.loss == "cross_entropy" else None
    return Score(lost / len(labels), accuracy)


def _batches(order: Tensor, size: int) -> Iterator[Tensor]:
    return (order[start : start + size] for start in range(0, len(order), size))


def _loss(outputs: Tensor, labels: Tensor, options: PersonalOptions) -> Tensor:
    if options.loss == "mse":
        return functional.mse_loss(outputs, labels)
    return functional.cross_entropy(outputs.flatten(1), labels)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let PyTorch use so many threads within one operator, inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
