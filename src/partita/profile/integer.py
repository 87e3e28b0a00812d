"""What layers take on the engine's integer kernels, beside what they take on floats.

Times do not depend on what numbers there are, but on which nodes the engine can join: ranges are
found from one drawn input, as such of samples would be.
"""

from __future__ import annotations

import msgspec

from partita.engine import make_feeds
from partita.errors import ModelError
from partita.graph import Graph
from partita.graph.quantised import with_kernels
from partita.profile.data import LayerProfile, Profile
from partita.quantisation import choose_bits, collect_ranges, quantize

_BITS = 8


def eight_bits(graph: Graph) -> Graph:
    """A graph of floats whose layers all have 8 bits, on integer kernels.

    Raises:
        ModelError: It is quantised as it is, or nothing of it can be.
    """
    ranges = None if graph.packings else collect_ranges(graph, [make_feeds(graph.input_specs)])
    bits = {} if ranges is None else choose_bits(graph, ranges, _BITS, _BITS)
    quantised = quantize(graph, bits)
    if graph.packings or quantised is graph:
        what = "it came quantised, and its profile says so" if graph.packings else "it has no layer"
        raise ModelError(
            f"Model '{graph.name}' cannot be measured with {_BITS} bits beside floats: {what}"
            " to quantise. Leave out --kernels.",
            subject=graph.name,
        )
    return with_kernels(quantised, integer=True)


def add_integer_layers(profile: Profile, integer: Profile) -> Profile:
    """The profile with the layers of another, of the same network on integer kernels."""
    share = integer.runs.factor / profile.runs.factor
    layers = {name: _scale(layer, share) for name, layer in integer.layers.items()}
    return msgspec.structs.replace(profile, integer=layers)


def _scale(layer: LayerProfile, share: float) -> LayerProfile:
    samples = tuple(
        msgspec.structs.replace(
            sample, seconds=sample.seconds * share, spread_s=sample.spread_s * share
        )
        for sample in layer.samples
    )
    return msgspec.structs.replace(layer, samples=samples)
