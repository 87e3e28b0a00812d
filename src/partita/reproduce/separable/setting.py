"""What "Communication-Efficient Separable Neural Network" says of its networks and policies."""

from __future__ import annotations

from dataclasses import dataclass

from partita.reproduce.figure import Paper
from partita.separable.architecture import Architecture
from partita.separable.policy import Decision, Policy

PAPER = Paper("separable", ("cache",))
GROUPS, STALENESS = 4, 2
#: Table 1.
LARGE = "8x16d-56"
#: Tables 5 and 6, and figures 5 and 6.
SMALL = "4x16d-56"


@dataclass(frozen=True)
class Found:
    """A row of tables 5 and 6.

    Attributes:
        method: What is added to the one before.
        decisions: Number of the permutation, and of the sparsity level.
        accuracy: On CIFAR-100, percent.
        cost: Printed, percent.
    """

    method: str
    decisions: tuple[tuple[int, int], ...]
    accuracy: float
    cost: float
    halves: bool = False

    @property
    def policy(self) -> Policy:
        """Its messages."""
        decisions = tuple(Decision(*each) for each in self.decisions)
        return Policy(decisions, STALENESS, self.halves)


_WHOLE = 8
FOUND = (
    Found(
        "separable",
        tuple((number, _WHOLE) for number in (12, 12, 7, 9, 10, 23, 9, 16, 18)),
        79.10,
        31.48,
    ),
    Found(
        "+ sparsification",
        ((0, 8), (10, 3), (18, 7), (22, 8), (16, 8), (18, 8), (9, 7), (13, 8), (22, 7)),
        78.70,
        27.99,
    ),
    Found(
        "+ sparsification + float16",
        ((9, 4), (22, 6), (18, 6), (3, 6), (16, 7), (23, 8), (9, 8), (13, 8), (20, 7)),
        78.56,
        14.43,
        halves=True,
    ),
)
#: Table 2: percent on CIFAR-10 and CIFAR-100, plain and separable.
ACCURACIES = {
    "4x16d-56": ((95.76, 79.30), (95.53, 79.10)),
    "8x16d-110": ((96.23, 81.11), (96.32, 81.98)),
    "64x4d-56": ((96.30, 81.35), (96.05, 81.68)),
}


def separable(name: str, *, classes: int = 100) -> Architecture:
    """A network of the paper in its four groups."""
    return Architecture.parse(name, groups=GROUPS, classes=classes)
