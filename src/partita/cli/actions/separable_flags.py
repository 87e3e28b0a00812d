"""Which flag a refused number of a network or policy came by."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from partita.errors import ModelError

#: The flags of what a network or policy is refused for.
_FLAGS = {
    "depth": "--depth",
    "cardinality": "--cardinality",
    "width": "--width",
    "groups": "--groups",
    "staleness": "--alpha",
    "policy": "--policy",
}


@contextlib.contextmanager
def naming_flags(**given: str) -> Iterator[None]:
    """Say of a number that does not fit the network by which flag it can be changed.

    Args:
        given: Other flags than those that have the number's name, with what was typed.
    """
    try:
        yield
    except ModelError as error:
        flag = {**_FLAGS, **given}.get(error.subject)
        if flag is None:
            raise
        raise ModelError(f"{flag}: {error}", subject=error.subject) from error
