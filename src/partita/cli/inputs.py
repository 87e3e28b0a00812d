"""Arrays of runs: inputs from files and directories or drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.cli.flags import RequestFlags
from partita.engine import make_feeds
from partita.program import TensorSpec
from partita.quantisation.samples import Feeds, check_room, read_inputs


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
        InputError: Memory has no room for so many.
    """
    check_room(count, count * sum(spec.size_bytes for spec in specs), "--requests")
    rng = np.random.default_rng(seed)
    return [make_feeds(specs, rng) for _ in range(count)]


def input_files(texts: Sequence[str]) -> list[str]:
    """What flags may name: each may be of the form NAME=FILE, or a file of that name."""
    return [path for text in texts for path in (text, text.partition("=")[2]) if path]
