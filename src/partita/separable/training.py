"""Training of a separable network: a plain loop, repeatable from any epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor, nn
from torch.nn import functional

from partita.errors import RunError
from partita.memory import tune_malloc
from partita.separable.augment import augment
from partita.separable.data import Dataset, Pictures
from partita.separable.definition import DENSE
from partita.separable.module import Losses, SeparableNet
from partita.separable.options import TrainOptions
from partita.separable.policy import Policy
from partita.separable.residual import ResidualNetwork

#: Of He et al. 2016, which ResNeXt follows.
_MOMENTUM, _DECAY = 0.9, 1e-4
#: Pictures are moved by so many pixels at most.
_SHIFT = 4
#: Pictures of a batch when nothing is learned: a megabyte for each tensor of a picture.
_JUDGED_TOGETHER = 100
#: Pictures that mean and deviation are taken of.
_STATISTICS = 5000
#: The dense layer's share of the learning rate. What it reads is above 0 and, where messages were
#: added, large, so that at the whole rate logits swing: after 8,100 pictures of Fashion-MNIST
#: 4x16d-20 in four groups had 75.5 % right so, and 81.4 % with this; in one piece 79.7 and 80.6 %.
_DENSE_SHARE = 0.1
#: glibc's M_MMAP_MAX and M_TRIM_THRESHOLD: freed memory stays in the process. Features of four
#: groups are too large for its heap otherwise, and pages that are fresh in each step took a quarter
#: of its time, and less of the plain network's.
_MALLOPT = {-4: 0, -1: -1}
#: In place of an epoch's number: apart from what epochs draw.
_DIVIDING = 1 << 32

#: The policies whose gradients are averaged for a batch, and what tells them the losses.
DrawPolicies = Callable[[torch.Generator], Sequence[Policy]]
#: Told how much is done, of how much, and of what.
Tell = Callable[[int, int, str], None]


def tell_nobody(done: int, total: int, what: str) -> None:
    """Nothing is shown."""


@dataclass(frozen=True)
class Part:
    """What of a data set a network is trained on, and what it is chosen by.

    Attributes:
        test: What it is judged by at the end, and by nothing else.
        options: With what suits the pictures.
    """

    train: Pictures
    judged: Pictures
    test: Pictures
    options: TrainOptions

    def counts(self) -> dict[str, int]:
        """How many pictures there are of each use, for JSON."""
        uses = {"train": self.train, "validation": self.judged, "test": self.test}
        return {use: len(pictures) for use, pictures in uses.items()}

    def facts(self) -> dict[str, Any]:
        """What makes a training on it this one and no other, on as many threads, for JSON."""
        seen = xxhash.xxh3_64(self.train.images.tobytes())
        seen.update(self.train.labels.tobytes())
        return {
            "pictures": seen.hexdigest(),
            "threads": torch.get_num_threads(),
            "train": asdict(self.options),
        }


def divide(data: Dataset, options: TrainOptions, seed: int) -> Part:
    """The part of the training pictures that options ask for, some of it held out."""
    draw = epoch_generator(seed, _DIVIDING)
    order = torch.randperm(len(data.train), generator=draw).numpy()
    order = order[: options.images or None]
    held = min(len(order) - 2, max(1, round(options.held_out * len(order))))
    if data.is_grey:
        options = replace(options, flips=False, augment=False)
    return Part(
        data.train.take(order[held:]),
        data.train.take(order[:held]),
        data.test if not options.tested else _spread(data.test, options.tested),
        options,
    )


def _spread(pictures: Pictures, count: int) -> Pictures:
    """So many of them, from all over: folders have one class after the other."""
    last = len(pictures) - 1
    return pictures.take(np.linspace(0, last, min(count, last + 1)).astype(np.int64))


def start_net(architecture: ResidualNetwork, pictures: Pictures, *, seed: int) -> SeparableNet:
    """A network with weights drawn from a seed, which standardises what is like the pictures."""
    net = SeparableNet(architecture, seed=seed)
    net.fit_statistics(torch.from_numpy(pictures.images[:_STATISTICS]) / 255)
    return net


def keep_freed_memory() -> None:
    """Let this process keep what a step has freed for the next one, where the C library can."""
    tune_malloc(_MALLOPT)


class Trainer:
    """Trains one network, epoch by epoch.

    All that is drawn in an epoch follows from the seed and the epoch's number: a training that goes
    on from a checkpoint gives the same network as one that was never interrupted.

    Args:
        seed: Of order, changes of pictures, policies and dropped messages.
        drop_messages: Share of the messages of each picture that do not arrive, so that the
            network learns to go on without them.
    """

    def __init__(
        self,
        net: SeparableNet,
        pictures: Pictures,
        options: TrainOptions,
        *,
        seed: int = 0,
        drop_messages: float = 0.0,
    ) -> None:
        keep_freed_memory()
        self.net = net
        self.epoch = 0
        self._options, self._seed, self._drop_messages = options, seed, drop_messages
        self._images = torch.from_numpy(pictures.images)
        self._labels = torch.from_numpy(pictures.labels)
        dense = {f"{DENSE}.weight", f"{DENSE}.bias"}
        shares: dict[float, list[nn.Parameter]] = {1.0: [], _DENSE_SHARE: []}
        for name, weights in net.named_parameters():
            shares[_DENSE_SHARE if name in dense else 1.0].append(weights)
        self.optimiser = torch.optim.SGD(
            [{"params": weights, "share": share} for share, weights in shares.items()],
            options.rate,
            momentum=_MOMENTUM,
            weight_decay=_DECAY,
            nesterov=True,
        )

    def train_epoch(self, policies: DrawPolicies, tell: Tell = tell_nobody) -> float:
        """See all pictures once; return the mean loss.

        Raises:
            RunError: The loss, or a weight, is no longer a number.
        """
        options = self._options
        draw = epoch_generator(self._seed, self.epoch)
        order = torch.randperm(len(self._labels), generator=draw)
        batches = _batches(order, options.batch)
        steps = len(batches)
        self.net.train()
        lost = 0.0
        for step, chosen in enumerate(batches):
            tell(step, steps, "training")
            for group in self.optimiser.param_groups:
                group["lr"] = group["share"] * self._rate(step, steps)
            images = self._changed(self._images[chosen], draw)
            loss = self._step(images, self._labels[chosen], policies(draw), draw)
            if not math.isfinite(loss):
                raise self._diverged(f"loss is {loss}")
            lost += loss * len(chosen)
        # The last step's weights have seen no loss.
        if not all(bool(value.isfinite().all()) for value in self.net.state_dict().values()):
            raise self._diverged("weights are no longer finite")
        self.epoch += 1
        return lost / len(order)

    def _rate(self, step: int, steps: int) -> float:
        """The learning rate of a step of this epoch."""
        options = self._options
        done = (self.epoch + step / steps) / options.epochs
        begun = done + 1 / (steps * options.epochs)
        risen = min(1.0, begun / options.warmup) if options.warmup else 1.0
        return options.rate * risen * 0.5 * (1 + math.cos(math.pi * done))

    def _diverged(self, what: str) -> RunError:
        options = self._options
        return RunError(
            f"Training: {what} in epoch {self.epoch + 1} of {options.epochs} at rate"
            f" {options.rate:g}. Lower the rate."
        )

    def _step(
        self, images: Tensor, labels: Tensor, policies: Sequence[Policy], draw: torch.Generator
    ) -> float:
        """One step down the mean gradient of the policies (formula 9)."""
        losses = Losses(self._drop_messages, draw) if self._drop_messages else None
        self.optimiser.zero_grad()
        total = 0.0
        for policy in policies:
            with _floats(mixed=self._options.mixed):
                answers = self.net(images, policy, losses)
            loss = functional.cross_entropy(answers.float(), labels) / len(policies)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        self.optimiser.step()
        return total

    def state(self) -> dict[str, Tensor]:
        """All tensors that training goes on from; the epoch's number beside them is the rest."""
        moments = self.optimiser.state_dict()["state"]
        return {
            **prefixed("net.", self.net.state_dict()),
            **{f"momentum.{number}": one["momentum_buffer"] for number, one in moments.items()},
        }

    def restore(self, tensors: Mapping[str, Tensor], epoch: int) -> None:
        """Go on from a state."""
        self.net.load_state_dict(under("net.", tensors))
        buffers = under("momentum.", tensors)
        state = {int(number): {"momentum_buffer": value} for number, value in buffers.items()}
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})
        self.epoch = epoch

    def _changed(self, images: Tensor, draw: torch.Generator) -> Tensor:
        """Pictures as training sees them, from 0 to 1."""
        if self._options.flips:
            mirrored = torch.rand(len(images), generator=draw) < 0.5
            images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
        if self._options.shifts:
            images = _shift(images, draw)
        if self._options.augment:
            images = augment(images, draw)
        return images / 255


def _floats(*, mixed: bool) -> torch.autocast:
    """The floats that layers compute in: of 32 bits, or of 16 where these suffice."""
    return torch.autocast("cpu", torch.bfloat16, enabled=mixed)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under longer names."""
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, under the rest of their names."""
    return {k[len(prefix) :]: value for k, value in tensors.items() if k.startswith(prefix)}


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """What draws everything in an epoch."""
    state = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator().manual_seed(state)


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Parts of so many pictures; a last one that is alone is in the part before.

    Where features have one place left, a normalisation cannot learn from one picture.
    """
    *parts, last = torch.split(order, size)
    if len(last) > 1 or not parts:
        return [*parts, last]
    return [*parts[:-1], torch.cat([parts[-1], last])]


def _shift(images: Tensor, draw: torch.Generator) -> Tensor:
    """Each picture moved by a few pixels, zeros behind."""
    count, channels, height, width = images.shape
    moves = torch.randint(0, 2 * _SHIFT + 1, (2, count, 1), generator=draw)
    padded = functional.pad(images, [_SHIFT] * 4)
    rows = (moves[0] + torch.arange(height))[:, None, :, None]
    columns = (moves[1] + torch.arange(width))[:, None, None, :]
    batch = torch.arange(count)[:, None, None, None]
    return padded[batch, torch.arange(channels)[None, :, None, None], rows, columns]


def judge(net: SeparableNet, policy: Policy, pictures: Pictures, *, mixed: bool = False) -> float:
    """The share of pictures whose class is the network's first.

    Args:
        mixed: Whether it computes in bfloat16 where that suffices.
    """
    with _floats(mixed=mixed):
        answers = list(_answers(net, policy, pictures))
    return sum(int((logits.argmax(1) == truth).sum()) for logits, truth in answers) / len(pictures)


def judge_losses(net: SeparableNet, policy: Policy, pictures: Pictures) -> dict[int, float]:
    """What :func:`judge` says when the messages of one group do not come, for each that sends any.

    Group 0 is none of them: it answers.
    """
    exchanges = policy.exchanges(net.architecture)
    senders = {sender for one in exchanges for sender, _ in one.messages()}
    return {g: judge(net, policy.without(g), pictures) for g in sorted(senders) if g}


def _answers(
    net: SeparableNet, policy: Policy, pictures: Pictures
) -> Iterator[tuple[Tensor, Tensor]]:
    net.eval()
    images, labels = torch.from_numpy(pictures.images), torch.from_numpy(pictures.labels)
    parts = (torch.split(tensor, _JUDGED_TOGETHER) for tensor in (images, labels))
    for part, truth in zip(*parts, strict=True):
        with torch.inference_mode():
            yield net(part / 255, policy), truth
