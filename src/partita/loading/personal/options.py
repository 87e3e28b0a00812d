"""How a last child is trained, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from partita.errors import InputError

Optimiser = Literal["adam", "sgd"]
Loss = Literal["cross_entropy", "mse"]


@dataclass(frozen=True)
class PersonalOptions:
    """How the last child is trained.

    Attributes:
        epochs: Passes over the samples.
        rate: Learning rate.
        batch: Samples per step.
        optimiser: ``adam``, or ``sgd`` with momentum 0.9.
        loss: ``cross_entropy`` for labels that are classes, ``mse`` for wanted outputs.
        seed: Of the order of the samples, and of which are held out.
        held_out: Share of the samples that are not trained on; accuracy and loss are of them. With
            0 all are trained on, and the figures say how well they are remembered.
    """

    epochs: int = 20
    rate: float = 0.003
    batch: int = 16
    optimiser: Optimiser = "adam"
    loss: Loss = "cross_entropy"
    seed: int = 0
    held_out: float = 0.2
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: allowed are 1 and more.")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate is {self.rate}: allowed are numbers above 0.")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held_out is {self.held_out}: allowed are 0 to below 1.")
        for name, kind in (("optimiser", Optimiser), ("loss", Loss)):
            if getattr(self, name) not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                raise InputError(f"{name} is '{getattr(self, name)}': allowed are {allowed}.")


@dataclass(frozen=True)
class Score:
    """How good answers are.

    Attributes:
        loss: Mean loss.
        accuracy: Share of right classes; None for ``mse``.
    """

    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class Outcome:
    """What personalisation did.

    Attributes:
        accuracy_before: Share of right classes among the samples held out (all where none are)
            before training; None for ``mse``.
        accuracy_after: The same after it.
        loss_before: Mean loss over the same samples.
        loss_after: The same after it.
        judged: Number of these samples.
        held_out: Whether they were held out.
        seconds: All of it.
        feature_s: Running the frozen children over the samples.
        peak_memory_bytes: Most memory that the process held beyond what it held at the start,
            mapped weights included; 0 where the system does not say.
        trained: Numbers that were trained.
        variants: Names of the variants whose last child is the new one.
        left_out: Names of variants for other processors; their last child cannot be made here, and
            the bundle no longer has them.
    """

    accuracy_before: float | None
    accuracy_after: float | None
    loss_before: float
    loss_after: float
    judged: int = 0
    held_out: bool = False
    seconds: float = 0.0
    feature_s: float = 0.0
    train_s: float = 0.0
    peak_memory_bytes: int = 0
    trained: int = 0
    variants: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
