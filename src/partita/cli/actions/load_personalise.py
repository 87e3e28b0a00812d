"""Training a bundle's last child on its user's samples."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from partita.cli.output import Reply
from partita.errors import InputError
from partita.files import require_regular
from partita.loading import Outcome, PersonalOptions, personalise
from partita.regions import Array
from partita.units import format_bytes, format_seconds

__all__ = ["PersonalOptions", "personalise_bundle"]


def personalise_bundle(bundle: Path, samples: Path, options: PersonalOptions) -> Reply:
    """Train the last child on samples, put it into the bundle, and say what that gave."""
    inputs, labels = read_samples(samples)
    outcome = personalise(bundle, inputs, labels, options)
    return Reply(asdict(outcome), [*describe_outcome(outcome)])


def read_samples(path: Path) -> tuple[Array, Array]:
    """The arrays ``x`` and ``y`` of a file.

    Raises:
        InputError: It cannot be read, or lacks one of them.
    """
    if not path.exists():
        raise InputError(f"Samples '{path}' do not exist.", subject=str(path))
    try:
        require_regular(path)
        with np.load(path, allow_pickle=False) as archive:
            if {"x", "y"} <= set(archive.files):
                return archive["x"], archive["y"]
            names = ", ".join(archive.files) or "nothing"
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"Samples '{path}' are no readable .npz file of numbers.", subject=str(path)
        ) from error
    raise InputError(f"Samples '{path}' hold {names}; needed are x and y.", subject=str(path))


def describe_outcome(outcome: Outcome) -> list[str]:
    """The lines for people."""
    judged = f"{outcome.judged} samples held out"
    if not outcome.held_out:
        judged = f"all {outcome.judged} samples, which it was trained on"
    worse = outcome.loss_after > outcome.loss_before
    return [
        f"Right:    {outcome.accuracy_before:.1%} before, {outcome.accuracy_after:.1%} after, of"
        f" {judged}",
        f"Loss:     {outcome.loss_before:.3g} before, {outcome.loss_after:.3g} after",
        *(["Worse than before: train less, or split the model again."] * worse),
        f"Trained:  {outcome.trained:,} numbers in {format_seconds(outcome.seconds)},"
        f" {format_bytes(outcome.peak_memory_bytes)} of memory at most",
        f"Variants:  {', '.join(outcome.variants)}",
        *(f"Left out: {name} (for another processor)" for name in outcome.left_out),
    ]
