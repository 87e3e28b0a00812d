"""How many steps a systolic array takes for matrix products, and what it reads and writes.

One operand (or the outputs) lies in the grid, a tile of it at a time, while the rest passes: a
tile takes as many steps as the passing dimension is long, and those that it takes to fill and to
empty the grid. Steps are those that SCALE-Sim 3.0.0 simulates, by which 'AUTO-SPLIT' (section 5.1)
goes in an older version; ``tests/cost/test_systolic.py`` compares. The formula that SCALE-Sim's
authors publish (Samajdar et al. 2020, equation 1) has rows once more for outputs that stay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.cluster import Array
from partita.cost.amount import Amount, Stored
from partita.graph.work import Products

Floats = npt.NDArray[np.float64]

#: Bits that a multiplier takes in one step, and the most that an array computes with: numbers of
#: more are taken to be rounded to so many.
_NARROW_BITS, _WIDE_BITS = 8, 16


def product_steps(array: Array, products: Products, rows: Floats) -> Floats:
    """The steps of all products, whose first matrices have ``rows`` rows instead of their own.

    Args:
        rows: One or many numbers of rows.
    """
    inner, columns = (np.full_like(rows, n) for n in (products.inner, products.columns))
    laid = {
        "os": (rows, columns, inner),
        "ws": (inner, columns, rows),
        "is": (inner, rows, columns),
    }
    down, across, passing = laid[array.dataflow]
    tiles: Floats = np.ceil(down / array.rows) * np.ceil(across / array.columns)
    # What stays is laid down row by row before; outputs leave while the next tile begins.
    laying = 0 if array.dataflow == "os" else array.rows
    return tiles * (laying + array.rows + array.columns + passing - 2) * products.count


def layer_s(array: Array, amount: Amount, rows: Floats, bits: int) -> Floats:
    """The seconds of a layer for numbers of its output rows.

    The longer of what its multiplications take and of what its memory takes.

    Args:
        bits: Of numbers that are not quantised.
    """
    share, bits = rows / amount.rows, min(bits, _WIDE_BITS)
    steps = sum(
        (
            product_steps(array, item, np.ceil(item.rows * rows / amount.rows))
            for item in amount.products
        ),
        start=np.zeros_like(rows),
    )
    if min(amount.operand_bits, bits) > _NARROW_BITS:
        steps = steps * array.wide_steps
    moved = moved_bytes(array, amount, share, bits)
    return np.maximum(steps / array.clock_hz, moved / array.off_chip_bytes_per_s)


def moved_bytes(array: Array, amount: Amount, share: Floats, bits: int) -> Floats:
    """The bytes to and from the memory outside, for shares of a layer's output rows.

    Weights, inputs and outputs move once. Where neither weights nor inputs fit the half of the
    memory on the chip that keeps what is used again, one of them stays there part by part, and
    the other is read again for each part: whichever moves less.
    """
    weights = np.asarray(_bytes(amount.weights, bits))
    inputs, outputs = (_bytes(stored, bits) * share for stored in (amount.inputs, amount.outputs))
    kept = array.on_chip_bytes / 2
    if not amount.products:
        return weights + inputs + outputs
    again = np.minimum(
        weights + inputs * np.maximum(1, np.ceil(weights / kept)),
        inputs + weights * np.maximum(1, np.ceil(inputs / kept)),
    )
    return np.asarray(again + outputs)


def _bytes(stored: Stored, bits: int) -> float:
    return sum(elements * min(own, bits) for elements, own in stored) / 8
