"""Training of a separable network: a plain loop, repeatable from any epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from partita.errors import RunError
from partita.separable.data import Pictures
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy

#: Of He et al. 2016, which ResNeXt follows.
_MOMENTUM, _DECAY = 0.9, 1e-4
#: Pictures are moved by so many pixels at most.
_SHIFT = 4
#: Pictures of a batch when nothing is learned.
_JUDGED_TOGETHER = 500

#: The policies whose gradients are averaged for a batch, and what tells them the losses.
DrawPolicies = Callable[[torch.Generator], Sequence[Policy]]


@dataclass(frozen=True)
class TrainOptions:
    """How a network is trained.

    Attributes:
        epochs: Times that all pictures are seen.
        batch: Pictures of a step.
        rate: First learning rate; it falls to nothing along half a cosine.
        shifts: Whether pictures are moved a little.
        flips: Whether pictures are mirrored.
        seed: Of order, shifts and policies.
    """

    epochs: int = 200
    batch: int = 128
    rate: float = 0.1
    shifts: bool = True
    flips: bool = True
    seed: int = 0


class Trainer:
    """Trains one network, epoch by epoch.

    All that is drawn in an epoch follows from the seed and the epoch's number: a training that goes
    on from a checkpoint gives the same network as one that was never interrupted.
    """

    def __init__(self, net: SeparableNet, pictures: Pictures, options: TrainOptions) -> None:
        self.net = net
        self.epoch = 0
        self._options = options
        self._images = torch.from_numpy(pictures.images)
        self._labels = torch.from_numpy(pictures.labels)
        self.optimiser = torch.optim.SGD(
            net.parameters(), options.rate, momentum=_MOMENTUM, weight_decay=_DECAY, nesterov=True
        )

    def train_epoch(self, policies: DrawPolicies) -> float:
        """See all pictures once; return the mean loss.

        Raises:
            RunError: The loss is no longer a number.
        """
        options = self._options
        draw = epoch_generator(options.seed, self.epoch)
        order = torch.randperm(len(self._labels), generator=draw)
        steps = -(-len(order) // options.batch)
        self.net.train()
        lost = 0.0
        for step, chosen in enumerate(torch.split(order, options.batch)):
            part = (self.epoch + step / steps) / options.epochs
            for group in self.optimiser.param_groups:
                group["lr"] = options.rate * 0.5 * (1 + math.cos(math.pi * part))
            images = self._augmented(self._images[chosen], draw)
            loss = self._step(images, self._labels[chosen], policies(draw))
            if not math.isfinite(loss):
                raise RunError(
                    f"Training: the loss is {loss} in epoch {self.epoch + 1} of {options.epochs} at"
                    f" rate {options.rate}. Lower the rate."
                )
            lost += loss * len(chosen)
        self.epoch += 1
        return lost / len(order)

    def _step(self, images: Tensor, labels: Tensor, policies: Sequence[Policy]) -> float:
        """One step down the mean gradient of the policies (formula 9)."""
        self.optimiser.zero_grad()
        total = 0.0
        for policy in policies:
            loss = functional.cross_entropy(self.net(images, policy), labels) / len(policies)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        self.optimiser.step()
        return total

    def _augmented(self, images: Tensor, draw: torch.Generator) -> Tensor:
        if self._options.flips:
            mirrored = torch.rand(len(images), generator=draw) < 0.5
            images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
        if self._options.shifts:
            images = _shift(images, draw)
        return images / 255


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """What draws everything in an epoch."""
    state = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator().manual_seed(state)


def _shift(images: Tensor, draw: torch.Generator) -> Tensor:
    """Each picture moved by a few pixels, zeros behind."""
    count, channels, height, width = images.shape
    moves = torch.randint(0, 2 * _SHIFT + 1, (2, count, 1), generator=draw)
    padded = functional.pad(images, [_SHIFT] * 4)
    rows = (moves[0] + torch.arange(height))[:, None, :, None]
    columns = (moves[1] + torch.arange(width))[:, None, None, :]
    batch = torch.arange(count)[:, None, None, None]
    return padded[batch, torch.arange(channels)[None, :, None, None], rows, columns]


def judge(net: SeparableNet, policy: Policy, pictures: Pictures) -> float:
    """The share of pictures whose class is the network's first."""
    answers = _answers(net, policy, pictures)
    return sum(int((logits.argmax(1) == truth).sum()) for logits, truth in answers) / len(pictures)


def _answers(
    net: SeparableNet, policy: Policy, pictures: Pictures
) -> Iterator[tuple[Tensor, Tensor]]:
    net.eval()
    images, labels = torch.from_numpy(pictures.images), torch.from_numpy(pictures.labels)
    parts = (torch.split(tensor, _JUDGED_TOGETHER) for tensor in (images, labels))
    for part, truth in zip(*parts, strict=True):
        with torch.inference_mode():
            yield net(part / 255, policy), truth
