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

#: Samples whose layers' outputs are in memory at the same time; gradients of a batch are summed.
#: Chosen on MobileNet-V1 at 224 px in batches of 16, to hold a third of what the whole model does.
_AT_ONCE = 4
#: A mean loss of the last epoch so many times the least is no noise. Not tuned: a diverging rate
#: raises it by orders of magnitude.
_DIVERGED = 10.0
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
        parameters: What is trained; nothing else changes.
        inputs: Samples along the first axis of each.
        labels: Classes (samples,), or wanted outputs (samples, ...).

    Raises:
        RunError: The loss is no longer a number, or rose beyond all noise.
    """
    optimiser = OPTIMISERS[options.optimiser](parameters, options.rate)
    draw = torch.Generator().manual_seed(options.seed)
    first, mean = math.inf, 0.0
    for epoch in range(options.epochs):
        lost = 0.0
        for chosen in _batches(torch.randperm(len(labels), generator=draw), options.batch):
            loss = 0.0
            for part in _batches(chosen, _AT_ONCE):
                outputs = forward([array[part] for array in inputs])
                share = _loss(outputs, labels[part], options) * (len(part) / len(chosen))
                share.backward()  # type: ignore[no-untyped-call]
                loss += share.item()
            if not math.isfinite(loss):
                raise RunError(
                    f"Training: the loss is {loss} in epoch {epoch + 1} of {options.epochs}"
                    f" at rate {options.rate}. Lower the rate."
                )
            lost += loss * len(chosen)
            optimiser.step()
        mean = lost / len(labels)
        first = min(first, mean) if epoch else mean
    if mean > _DIVERGED * first:
        raise RunError(
            f"Training: the mean loss rose from {first:.3g} to {mean:.3g} at rate {options.rate}."
            " Lower the rate."
        )


def divide(count: int, options: PersonalOptions) -> tuple[Tensor | slice, Tensor | slice]:
    """Which samples are held out and which are trained on; all are both where none are."""
    held = round(options.held_out * count)
    if not 0 < held < count:
        return slice(None), slice(None)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(options.seed))
    return order[:held], order[held:]


def score(
    forward: Forward, inputs: Sequence[Tensor], labels: Tensor, options: PersonalOptions
) -> Score:
    """How good the answers are; arguments as for :func:`train`."""
    lost, right = 0.0, 0
    with torch.no_grad():
        for chosen in _batches(torch.arange(len(labels)), _AT_ONCE):
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
