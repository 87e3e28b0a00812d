"""One network under one policy, trained to the end, also where that was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from partita.separable import checkpoint
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy
from partita.separable.training import Part, Tell, Trainer, tell_nobody

#: Told of each epoch: its number from 1, and its mean loss.
Done = Callable[[int, float], None]


class Fitting:
    """Trains a network under a policy, with a file to go on from.

    Args:
        run: What makes it this training and no other, beside policy, options and pictures.
    """

    def __init__(
        self,
        net: SeparableNet,
        policy: Policy,
        part: Part,
        *,
        seed: int = 0,
        drop_messages: float = 0.0,
        run: dict[str, Any] | None = None,
    ) -> None:
        self.net, self.policy, self.part = net, policy, part
        policy.exchanges(net.architecture)  # refuses what is for another architecture
        self._run = {
            **(run or {}),
            "seed": seed,
            "drop_messages": drop_messages,
            "policy": policy.facts(),
            **part.facts(),
        }
        self.trainer = Trainer(
            net, part.train, part.options, seed=seed, drop_messages=drop_messages
        )

    def finish(self, path: Path | None, done: Done, tell: Tell = tell_nobody) -> None:
        """Train the epochs that are left; after each the file, if any, holds what to go on from.

        Raises:
            RunError: The loss is no longer a number: the file holds the epoch before.
        """
        while self.trainer.epoch < self.part.options.epochs:
            loss = self.trainer.train_epoch(lambda draw: (self.policy,), tell)
            if path is not None:
                self.save(path)
            done(self.trainer.epoch, loss)

    def save(self, path: Path) -> None:
        """Write all that training needs to go on."""
        facts = {"run": self._run, "epoch": self.trainer.epoch, "policy": self.policy.facts()}
        checkpoint.save(path, self.net.architecture, self.trainer.state(), facts)

    def restore(self, path: Path) -> None:
        """Go on from a file.

        Raises:
            InputError: It cannot be read, or is of another training.
        """
        facts, tensors = checkpoint.load_run(path, self.net.architecture, self._run)
        self.trainer.restore(tensors, facts["epoch"])
