"""The paper's decisions (table 6), and drawn ones."""

import math
import random

from partita.separable.architecture import Architecture
from partita.separable.policy import LEVELS, Decision, Policy, count_windows

FOUND = Policy(tuple(map(Decision, (12, 12, 7, 9, 10, 23, 9, 16, 18))), staleness=2)
SPARSE = Policy(
    tuple(
        Decision(*pair)
        for pair in (
            *((0, 8), (10, 3), (18, 7), (22, 8), (16, 8), (18, 8)),
            *((9, 7), (13, 8), (22, 7)),
        )
    ),
    staleness=2,
)
HALVED = Policy(
    tuple(
        Decision(*pair)
        for pair in (
            *((9, 4), (22, 6), (18, 6), (3, 6), (16, 7), (23, 8)),
            *((9, 8), (13, 8), (20, 7)),
        )
    ),
    staleness=2,
    halves=True,
)


def draw_policy(architecture: Architecture, dice: random.Random, staleness: int = 1) -> Policy:
    """Any policy of an architecture."""
    choices = math.factorial(architecture.groups)
    decisions = tuple(
        Decision(dice.randrange(choices), dice.randrange(len(LEVELS)))
        for _ in range(count_windows(architecture, staleness))
    )
    return Policy(decisions, staleness, halves=dice.random() < 0.5)
