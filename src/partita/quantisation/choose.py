"""From widths to tables of bits: what a plan says of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from partita.graph import Graph
from partita.quantisation.bits import WIDTHS, check_widths, list_quantisable
from partita.quantisation.ranges import Ranges
from partita.regions import Clipping, LayerBits

#: One width for all, or widths by layer; None, and layers that are not named, stay as they are.
Widths = int | Mapping[str, int] | None


@dataclass(frozen=True)
class CodeOptions:
    """How numbers become codes, beside how many bits they have.

    Attributes:
        per_channel: Whether each output channel's weights have a scale of their own.
        affine: Whether codes of weights cover a range from low to high, not one around 0.
        clipping: How ranges of weights and activations are found.
        norm: Exponent of the error that clipping ``mse`` makes small.
        corrects_bias: Whether biases make up for what rounding weights shifts on the samples.
        exact_sums: Whether scales have so few digits that all kernels add up the same sums.
    """

    per_channel: bool = True
    affine: bool = False
    clipping: Clipping = "mse"
    norm: float = 2.0
    corrects_bias: bool = True
    exact_sums: bool = False


#: Scales per channel around 0, ranges of the least mean squared error.
USUAL = CodeOptions()


def choose_bits(
    graph: Graph,
    ranges: Ranges | None,
    weights: Widths,
    activations: Widths,
    options: CodeOptions = USUAL,
) -> dict[str, LayerBits]:
    """The table of bits that gives layers these widths.

    Args:
        graph: Not quantised.
        ranges: Needed where activations have bits.
        weights: Of layers that have some.
        activations: Of layers, and of inputs of the network by their names. One width for all
            leaves out what the network answers, and gives inputs the most bits that there are, as
            cameras do.

    Raises:
        PlanError: A width is none that there is.
        InputError: Activations have bits, and samples tell nothing of them.
    """
    with_weights, with_activations = list_quantisable(graph)
    answers = {layer.name for layer in graph.layers if set(layer.outputs) & set(graph.outputs)}
    of_weights = _spread(weights, with_weights, "Weights")
    inner = [name for name in with_activations if name not in answers]
    of_activations = _spread(activations, inner, "Activations")
    if isinstance(activations, int):
        of_activations |= {name: max(WIDTHS) for name in graph.inputs if name in inner}
    means = ranges.means if ranges is not None and options.corrects_bias else {}
    table = {}
    for name in dict.fromkeys((*of_weights, *of_activations)):
        width = of_activations.get(name)
        low, high = 0.0, 0.0
        if width is not None:
            found = Ranges({}, 0) if ranges is None else ranges
            how = options.clipping, options.norm
            low, high = found.limits(name, width, *how, exact_sums=options.exact_sums)
        table[name] = LayerBits(
            weight=of_weights.get(name),
            activation=width,
            low=low,
            high=high,
            per_channel=options.per_channel,
            affine=options.affine,
            clipping=options.clipping,
            norm=options.norm,
            means=means.get(name, ()) if name in of_weights else (),
            exact_sums=options.exact_sums,
        )
    return table


def _spread(widths: Widths, names: Sequence[str], what: str) -> dict[str, int]:
    """Widths by name."""
    if widths is None:
        return {}
    given = widths if isinstance(widths, Mapping) else dict.fromkeys(names, widths)
    check_widths(given.values(), what)
    return dict(given)
