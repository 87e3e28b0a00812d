"""Actions of the split process as rows, and rows as actions (equation 9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.planners.distredge.process import Cuts

#: One number per border between devices, from -1 to 1.
Action = npt.NDArray[np.float32]


def cut_rows(action: npt.ArrayLike, height: int) -> Cuts:
    """The cuts of ``height`` rows that an action means: sorted, clipped, rounded.

    >>> cut_rows([0.5, -0.5, 3.0], 8)
    (0, 2, 6, 8, 8)
    """
    inside = np.clip(np.sort(np.asarray(action, dtype=np.float64)), -1.0, 1.0)
    inner = np.rint(height * (inside + 1.0) / 2.0).astype(int)
    return (0, *(int(row) for row in inner), height)


def action_of(cuts: Sequence[int]) -> Action:
    """The action that means these cuts.

    >>> action_of((0, 2, 6, 8)).tolist()
    [-0.5, 0.5]
    """
    height = max(1, cuts[-1])
    return np.array([2.0 * row / height - 1.0 for row in cuts[1:-1]], dtype=np.float32)
