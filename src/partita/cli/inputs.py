"""Arrays of runs: inputs from files and directories or drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.cli.flags import RequestFlags
from partita.engine import make_feeds
from partita.errors import InputError
from partita.program import TensorSpec
from partita.quantisation.samples import Feeds, read_inputs
from partita.units import format_bytes

#: Inputs that are drawn are held all at once, so that drawing takes no time of a run.
MOST_BYTES = 4 * 10**9


def get_requests(specs: Sequence[TensorSpec], flags: RequestFlags) -> list[Feeds]:
    """The requests of a run: what ``--input`` gives, or else as many drawn ones as are asked for.

    Raises:
        InputError: As :func:`read_inputs` and :func:`draw_inputs`.
    """
    if flags.files:
        return read_inputs(specs, flags.files)
    return draw_inputs(specs, flags.count, flags.seed)


def draw_inputs(specs: Sequence[TensorSpec], count: int, seed: int) -> list[Feeds]:
    """``count`` requests drawn from a seed: normal floats, bytes, zeros and ones.

    Raises:
        InputError: They take more than ``MOST_BYTES``.
    """
    size = sum(spec.size_bytes for spec in specs)
    if count * size > MOST_BYTES:
        raise InputError(
            f"{count} inputs of {format_bytes(size)} each do not fit in memory: allowed are"
            f" {format_bytes(MOST_BYTES)} at once.",
            subject="--requests",
        )
    rng = np.random.default_rng(seed)
    return [make_feeds(specs, rng) for _ in range(count)]


def input_files(texts: Sequence[str]) -> list[str]:
    """What flags may name: each may be of the form NAME=FILE, or a file of that name."""
    return [path for text in texts for path in (text, text.partition("=")[2]) if path]
