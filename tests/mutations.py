"""Damaged inputs: bytes that were flipped, cut and doubled, and fields of another type or size."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from partita.errors import PartitaError

#: Values that readers forget: of every type, at the ends of their ranges.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**62, -(2**62), 0.5, -1e300, float("inf"),
    "", "a", "../x", "float33", "x" * 2000, "\0", "ä\u2028", [], [[]], [1, 2], {}, {"a": 1},
)  # fmt: skip
#: Names of Python's own errors, as they look where one was turned into a message.
_BARE = re.compile(
    r"\b(Key|Value|Type|Index|Attribute|Assertion|Recursion|Overflow|ZeroDivision|Memory|Unicode\w*|"
    r"BrokenPipe|Runtime|Buffer|OS|Lookup|Name|StopIteration|Arithmetic|Validation|Decode)Error: "
)


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """``data`` with one to three damages."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(damaged) + 1)
        stop = min(len(damaged), start + rng.choice((1, 1, 4, 30)))
        how = rng.randrange(6)
        if how == 0 and stop > start:
            damaged[start] ^= 1 << rng.randrange(8)
        elif how == 1:
            del damaged[start:stop]
        elif how == 2:
            damaged[start:start] = rng.randbytes(rng.choice((1, 2, 9)))
        elif how == 3:
            damaged[start:start] = damaged[start:stop]
        elif how == 4:
            del damaged[start:]
        else:
            damaged[start:stop] = bytes([rng.choice((0, 0x7F, 0x80, 0xC1, 0xFF))]) * (stop - start)
    return bytes(damaged)


def mutate_tree(tree: Any, rng: Random) -> Any:
    """``tree`` of dicts, lists and leaves, with one to three values changed, removed or doubled."""
    changed = copy.deepcopy(tree)
    for _ in range(rng.randint(1, 3)):
        places = [(tree, key) for tree in _walk(changed) for key in _keys(tree)]
        if not places:
            return changed
        parent, key = rng.choice(places)
        how = rng.randrange(5)
        if how == 0:
            del parent[key]
        elif how == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        elif how == 2:
            _, other = rng.choice(places)
            holder = next(p for p, k in places if k is other or k == other)
            parent[key] = copy.deepcopy(holder[other]) if other in _keys(holder) else None
        elif how == 3 and isinstance(parent[key], int):
            parent[key] += rng.choice((-1, 1, 2**33))
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    return changed


def _walk(tree: Any) -> list[Any]:
    """All dicts and lists of a tree."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    nested = [more for value in inner for more in _walk(value)]
    return [tree, *nested] if isinstance(tree, dict | list) else nested


def _keys(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree)))


@dataclass
class Outcome:
    """What became of damaged inputs: how many were taken, refused in one line, or neither."""

    taken: int = 0
    refused: int = 0
    bare: dict[str, bytes] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """All that were tried."""
        return self.taken + self.refused + len(self.bare)


def judge(outcome: Outcome, attempt: Callable[[], object], damaged: bytes) -> None:
    """Try one damaged input: it is taken, or refused with an error of ours in one line."""
    try:
        attempt()
    except PartitaError as error:
        if _BARE.search(error.message) or "\n" in error.message.strip():
            outcome.bare[error.message[:300]] = damaged
        else:
            outcome.refused += 1
    except Exception as error:
        outcome.bare[f"{type(error).__name__}: {error}"[:300]] = damaged
    else:
        outcome.taken += 1
