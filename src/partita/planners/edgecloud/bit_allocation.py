"""Widths of weights and activations of least error within memory budgets.

Source: AUTO-SPLIT, equations 8 and 9. In a chain the activations' problem falls apart into layers,
each of which takes the width of least error that fits. Working sets with several tensors tie layers
together: there widths are lowered where that costs least error per bit until all sets fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.planners.edgecloud.knapsack import Floats, choose_by_lagrangian, choose_least
from partita.planners.edgecloud.network import Network

Bits = tuple[int, ...]
#: Per layer, the place of its width among the widths.
Options = npt.NDArray[np.intp]


def allocate_weights(
    network: Network, errors: Floats, widths: Sequence[int], budget_bits: float, *, exact: bool
) -> Bits | None:
    """The width of each layer's weights: least sum of errors in so many bits (equation 8).

    Args:
        errors: Of layers before the cut, by width.
        widths: The edge's, the narrowest first.
        exact: Whether the least sum is wanted, or that of the Lagrangian, a point of the hull.

    Returns:
        None where not even the narrowest fit.
    """
    uses = np.outer(network.weights[: len(errors)], widths).astype(float)
    choose = choose_least if exact else choose_by_lagrangian
    chosen = choose(errors, uses, budget_bits)
    return None if chosen is None else tuple(widths[option] for option in chosen)


def allocate_activations(
    network: Network, errors: Floats, widths: Sequence[int], budget_bits: float
) -> Bits | None:
    """The width of what each layer makes: little error, no working set above a budget (equation 9).

    The least sum of errors where no set holds tensors of two layers; else none of the widths could
    be wider alone.

    Args:
        errors: Of layers before the cut, by width.
        widths: The edge's, the narrowest first.

    Returns:
        None where not even the narrowest fit.
    """
    elements, fixed = network.working_elements(len(errors))
    bits, room = np.array(widths), budget_bits - fixed
    layers = np.arange(len(errors))
    chosen = errors.argmin(axis=1)

    def is_over(options: Options) -> npt.NDArray[np.bool_]:
        over: npt.NDArray[np.bool_] = elements @ bits[options] > room
        return over

    while (over := is_over(chosen)).any():
        narrower = np.maximum(chosen - 1, 0)
        saved = elements[over].sum(axis=0) * (bits[chosen] - bits[narrower])
        if not saved.any():
            return None
        worse = np.maximum(errors[layers, narrower] - errors[layers, chosen], 0)
        chosen[np.where(saved > 0, worse / np.maximum(saved, 1), np.inf).argmin()] -= 1
    # A layer whose error is less at a narrower width makes room for others: again until none gains.
    while True:
        more = elements[:, :, None] * (bits - bits[chosen, None])
        fits = ((elements @ bits[chosen])[:, None, None] + more <= room[:, None, None]).all(axis=0)
        better = _find_better(errors, chosen, fits)
        if better is None:
            return tuple(widths[option] for option in chosen)
        chosen[better[0]] = better[1]


def _find_better(
    errors: Floats, chosen: Options, fits: npt.NDArray[np.bool_]
) -> tuple[int, int] | None:
    """A layer and an option of less error for it, of that which may gain most; None if none can.

    Args:
        fits: By layer and option: whether it fits in the place of that layer's.
    """
    own = errors[np.arange(len(errors)), chosen]
    gains = fits & (errors < own[:, None])
    for layer in np.argsort(errors.min(axis=1) - own, kind="stable"):
        if gains[layer].any():
            return int(layer), int(np.where(gains[layer], errors[layer], np.inf).argmin())
    return None
