"""What training goes through, for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: Takes the number of a round or epoch, and values by name.
Log = Callable[[int, Mapping[str, float]], None]


@contextmanager
def open_log(folder: Path | None) -> Iterator[Log]:
    """Write scalars into a folder of event files; without one nothing is written."""
    if folder is None:
        yield lambda step, values: None
        return
    from torch.utils.tensorboard import SummaryWriter  # takes the extra 'tensorboard'

    def add(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    with SummaryWriter(str(folder)) as writer:
        yield add
