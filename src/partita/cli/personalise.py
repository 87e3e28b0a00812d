"""``partita load personalise``: a bundle's last child, trained on its user's samples."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to


def register(load: typer.Typer) -> None:
    """Add the verb to those of ``partita load``."""

    @load.command("personalise")
    def personalise(
        bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Split with --trainable.")],
        samples: Annotated[
            Path, typer.Option("--samples", help="File (.npz) with arrays x (inputs) and y.")
        ],
        epochs: Annotated[
            int,
            typer.Option("--epochs", callback=from_to(1, 100_000), help="Passes over the samples."),
        ] = 20,
        rate: Annotated[
            float, typer.Option("--rate", callback=from_to(1e-9, 100), help="Learning rate.")
        ] = 0.003,
        batch: Annotated[
            int, typer.Option("--batch", callback=from_to(1, 10**6), help="Samples per step.")
        ] = 16,
        held_out: Annotated[
            float,
            typer.Option(
                "--held-out", callback=from_to(0, 0.9), help="Share that only judges the result."
            ),
        ] = 0.2,
        threads: Annotated[
            int, typer.Option("--threads", callback=from_to(1, 256), help="Within one operator.")
        ] = 1,
        seed: SeedOpt = 0,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Train the last child of a bundle on samples, and put it into the bundle."""
        from partita.cli.output import Reply, print_reply
        from partita.loading import PersonalOptions
        from partita.loading import personalise as train

        options = PersonalOptions(
            epochs, rate, batch, seed=seed, held_out=held_out, threads=threads
        )
        inputs, labels = read_samples(samples)
        outcome = train(bundle, inputs, labels, options)
        return print_reply(Reply(asdict(outcome), describe_outcome(outcome)), as_json=json)


def read_samples(path: Path) -> tuple[Any, Any]:
    """Return the arrays ``x`` and ``y`` of a file.

    Raises:
        InputError: It cannot be read, or lacks one of them.
    """
    import zipfile

    import numpy as np

    from partita.errors import InputError
    from partita.files import require_regular

    if not path.exists():
        raise InputError(f"Samples '{path}' do not exist.", subject=str(path))
    try:
        require_regular(path)
        with np.load(path, allow_pickle=False) as archive:
            if {"x", "y"} <= set(archive.files):
                return archive["x"], archive["y"]
            found = ", ".join(archive.files) or "nothing"
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"Samples '{path}' are no readable .npz file of numbers.", subject=str(path)
        ) from error
    raise InputError(f"Samples '{path}' hold {found}; needed are x and y.", subject=str(path))


def describe_outcome(outcome: Any) -> list[Any]:
    """Return the lines for people."""
    from partita.units import format_bytes, format_seconds

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
        f"Schemes:  {', '.join(outcome.schemes)}",
        *(f"Left out: {name} (for another processor)" for name in outcome.left_out),
    ]
