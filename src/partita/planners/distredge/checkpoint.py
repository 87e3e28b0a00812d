"""Actor and critic as files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from partita.errors import PlanError
from partita.files import require_writable, write_whole
from partita.planners.distredge.agent import Weights
from partita.planners.distredge.observation import LAYER_FACTS

#: Written into every file; other numbers are refused.
FORMAT = 1
_KEYS = {"format", "providers", "time_unit_s", "weights"}


@dataclass(frozen=True)
class Checkpoint:
    """Actor and critic, and what their states mean.

    Attributes:
        providers: Devices that a state tells of.
        time_unit_s: Seconds that count as 1 in states and rewards.
        weights: Of both networks and their targets.
    """

    providers: int
    time_unit_s: float
    weights: Weights


def check_place(path: Path) -> None:
    """Refuse a place for a checkpoint before there is one.

    Raises:
        PlanError: No file can be written there.
    """
    with _told(path):
        require_writable(path)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        PlanError: The file cannot be written.
    """
    content = {
        "format": FORMAT,
        "providers": checkpoint.providers,
        "time_unit_s": checkpoint.time_unit_s,
        "weights": {name: dict(part) for name, part in checkpoint.weights.items()},
    }
    data = io.BytesIO()
    torch.save(content, data)
    with _told(path):
        write_whole(path, data.getvalue())


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn the system's refusal of a file into our own."""
    try:
        yield
    except OSError as error:
        raise PlanError(
            f"Checkpoint '{path}' cannot be written: {error.strerror}.", subject=str(path)
        ) from error


def load_checkpoint(path: Path, providers: int) -> Checkpoint:
    """A checkpoint for a cluster with so many providers.

    Only tensors and plain values are read from the file; it cannot run code.

    Raises:
        PlanError: There is no such file, it is no checkpoint, or it is for another state size.
    """
    content = _read(path)
    trained_for = content["providers"]
    if trained_for != providers:
        sizes = trained_for + LAYER_FACTS, providers + LAYER_FACTS
        raise PlanError(
            f"Checkpoint '{path}' is for {trained_for} providers (states of {sizes[0]}), the"
            f" cluster has {providers} (states of {sizes[1]}). Train anew for this cluster.",
            subject=str(path),
        )
    return Checkpoint(trained_for, content["time_unit_s"], content["weights"])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = torch.load(path, weights_only=True)
    except OSError as error:
        reason = error.strerror or "it is no file"
        raise PlanError(
            f"Checkpoint '{path}' cannot be read: {reason}.", subject=str(path)
        ) from None
    except Exception:  # what damaged files raise is torch's own affair
        content = None
    if not isinstance(content, dict) or set(content) != _KEYS or content["format"] != FORMAT:
        raise PlanError(
            f"Checkpoint '{path}' is not one that 'distredge' saved. Train anew, with"
            " --set distredge.save=FILE.",
            subject=str(path),
        )
    return content
