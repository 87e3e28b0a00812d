"""Error tables: what each layer loses by each number of bits (AUTO-SPLIT, section 3.2)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec
import numpy as np

from partita.graph import Graph
from partita.quantisation.bits import WIDTHS, check_widths, find_weights, list_quantisable
from partita.quantisation.choose import USUAL, CodeOptions, choose_bits
from partita.quantisation.outputs import OutputMeasure, Reference
from partita.quantisation.ranges import Advance, Ranges
from partita.quantisation.weights import WeightRanges
from partita.regions import LayerBits

#: What an error is: the mean squared difference of the tensor itself, or what of the network's
#: outputs changes where this one tensor alone is quantised.
Measure = Literal["mse"] | OutputMeasure


class ErrorTable(msgspec.Struct, frozen=True):
    """Errors by layer and number of bits, found once: D^w and D^a of AUTO-SPLIT.

    Attributes:
        weights: Of layers with weights: width to error.
        activations: Of what layers make, and of the network's inputs by their names: width to
            error. Layers that only move values have none: they keep their input's codes.
        measure: What an error is.
    """

    weights: dict[str, dict[int, float]]
    activations: dict[str, dict[int, float]]
    measure: Measure = "mse"


def tabulate_errors(
    graph: Graph,
    ranges: Ranges,
    widths: Collection[int] = WIDTHS,
    options: CodeOptions = USUAL,
    advance: Advance | None = None,
    *,
    weights: dict[str, dict[int, float]] | None = None,
) -> ErrorTable:
    """The mean squared error of each layer's weights and activations at each width.

    Args:
        graph: Not quantised.
        weights: What :func:`tabulate_weights` says, where that is known.

    Raises:
        PlanError: A width is none that there is, or weights are not finite.
    """
    check_widths(widths, "Error tables")
    if weights is None:
        weights = tabulate_weights(graph, widths, options, advance)
    how, exact_sums = (options.clipping, options.norm), options.exact_sums
    activations = {
        name: {width: ranges.error(name, width, *how, exact_sums=exact_sums) for width in widths}
        for name in list_quantisable(graph)[1]
    }
    return ErrorTable(weights, activations)


def tabulate_weights(
    graph: Graph,
    widths: Collection[int] = WIDTHS,
    options: CodeOptions = USUAL,
    advance: Advance | None = None,
) -> dict[str, dict[int, float]]:
    """The mean squared error of each layer's weights at each width, whatever samples there are.

    Raises:
        PlanError: Weights are not finite.
    """
    errors: dict[str, dict[int, float]] = {}
    names = list_quantisable(graph)[0]
    for number, name in enumerate(names):
        if advance is not None:
            advance(number, len(names), name)
        errors[name] = {width: _weight_error(graph, name, width, options) for width in widths}
    return errors


def coded_weights(options: CodeOptions, width: int | None = None) -> LayerBits:
    """Weights of so many bits, as the options say."""
    return LayerBits(
        weight=width,
        per_channel=options.per_channel,
        affine=options.affine,
        clipping=options.clipping,
        norm=options.norm,
        exact_sums=options.exact_sums,
    )


def _weight_error(graph: Graph, name: str, width: int, options: CodeOptions) -> float:
    layer = graph.layer(name)
    found = find_weights(graph, layer)
    packing = graph.remember(WeightRanges).pack(layer, coded_weights(options, width))
    if found is None or packing is None:
        return 0.0
    array = np.asarray(graph.constants[found.name], np.float32)
    off = packing.round(array) - array
    return float(np.vdot(off, off)) / off.size


def measure_errors(
    reference: Reference,
    ranges: Ranges,
    measure: OutputMeasure,
    widths: Collection[int] = WIDTHS,
    options: CodeOptions = USUAL,
    *,
    advance: Advance | None = None,
) -> ErrorTable:
    """What changes of the network's outputs where one layer alone is quantised, at each width.

    The network runs over the reference's samples for every layer and width twice: minutes where
    :func:`tabulate_errors` takes seconds.

    Raises:
        PlanError: As there.
    """
    check_widths(widths, "Error tables")
    graph = reference.graph
    named = list_quantisable(graph)
    weights: dict[str, dict[int, float]] = {name: {} for name in named[0]}
    activations: dict[str, dict[int, float]] = {name: {} for name in named[1]}
    steps = [
        (errors, name, width)
        for errors in (weights, activations)
        for name in errors
        for width in widths
    ]
    for number, (errors, name, width) in enumerate(steps):
        if advance is not None:
            advance(number, len(steps), name)
        alone, nothing = {name: width}, dict[str, int]()
        pair = (alone, nothing) if errors is weights else (nothing, alone)
        bits = choose_bits(graph, ranges, pair[0], pair[1], options)
        errors[name][width] = reference.measure(bits, measure)
    return ErrorTable(weights, activations, measure)


def scale_errors(errors: ErrorTable, alone: ErrorTable) -> ErrorTable:
    """What outputs lose by each layer alone at all widths, from where that was measured at some.

    Little noise passes through a network as through a linear one: what of it arrives at the outputs
    grows as it does itself. Of several measured widths the nearest says how much that is.

    Args:
        errors: Mean squared errors of the tensors themselves.
        alone: As :func:`measure_errors` finds them, at some of these widths.
    """
    pairs = ((errors.weights, alone.weights), (errors.activations, alone.activations))
    weights, activations = (
        {name: _scale(table, measured[name]) for name, table in own.items()}
        for own, measured in pairs
    )
    return ErrorTable(weights, activations, alone.measure)


def _scale(own: dict[int, float], alone: dict[int, float]) -> dict[int, float]:
    known = [width for width in alone if own[width] > 0]
    if not known:
        return dict.fromkeys(own, 0.0)
    nearest = {width: min(known, key=lambda one: abs(one - width)) for width in own}
    return {w: max(0.0, alone[near]) * own[w] / own[near] for w, near in nearest.items()}
