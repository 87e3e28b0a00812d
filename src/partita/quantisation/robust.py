"""Which layers bear a width: those that rounded alone leave most of the outputs' signal.

Uniform bits are as bad as the worst layer: where one activation reaches from below 0 to a hundred
and what matters is small, 8 bits lose it. Such layers stay floats, as mixed-precision tools leave
out layers by hand.
"""

from __future__ import annotations

import msgspec

from partita.quantisation.choose import USUAL, CodeOptions, choose_bits
from partita.quantisation.outputs import Reference
from partita.quantisation.ranges import Advance, Ranges

Widths = dict[str, int]


def robust_widths(
    reference: Reference,
    ranges: Ranges,
    widths: tuple[int | None, int | None],
    least_db: float,
    options: CodeOptions = USUAL,
    *,
    advance: Advance | None = None,
) -> tuple[Widths, Widths]:
    """The widths of weights and of activations by layer, for those layers that bear them.

    Args:
        reference: The network, and a few samples: it runs over these twice a layer.
        widths: Of all weights and all activations, as for :func:`choose_bits`; None leaves them.
        least_db: Signal to noise that outputs must have with these weights, or these activations,
            rounded alone.
    """
    bits = choose_bits(reference.graph, ranges, *widths, options)
    parts = {
        "weight": {name: entry.weight for name, entry in bits.items() if entry.weight},
        "activation": {name: entry.activation for name, entry in bits.items() if entry.activation},
    }
    total, done = sum(map(len, parts.values())), 0
    for part, by_name in parts.items():
        other = "activation" if part == "weight" else "weight"
        for name in list(by_name):
            if advance is not None:
                advance(done, total, name)
            done += 1
            alone = msgspec.structs.replace(bits[name], **{other: None})
            if reference.signal_to_noise_db({name: alone}) < least_db:
                del by_name[name]
    return parts["weight"], parts["activation"]
