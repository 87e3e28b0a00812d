"""The layers that a profile of the float network has for a graph that was quantised from it."""

from __future__ import annotations

import msgspec

from partita.cost.amount import Amounts
from partita.graph import Graph, Layer
from partita.profile import LayerProfile, Profile, Sample
from partita.quantisation.bits import find_weights


def fit_layers(profile: Profile, amounts: Amounts) -> Profile:
    """A profile with the layers of a quantised graph; of the measured graph it is as it was.

    Layers on integer kernels are those measured so, where they were. Layers that round inputs take
    what copying takes, unless they were measured, too. All others bear the same names in both.
    """
    graph = amounts.graph
    if graph.base is None or profile.model_hash == graph.hash:
        return profile
    known = {layer.name for layer in graph.base.layers}
    layers = dict(profile.layers)
    for layer in graph.layers:
        if layer.name in profile.integer and runs_on_integers(graph, layer):
            layers[layer.name] = profile.integer[layer.name]
        elif layer.name not in known:
            layers[layer.name] = _copying(profile, amounts, layer.name)
    return msgspec.structs.replace(profile, layers=layers)


def runs_on_integers(graph: Graph, layer: Layer) -> bool:
    """Whether a layer of a quantised graph runs on the engine's integer kernels.

    One without weights does where what it reads and makes are codes; inputs and answers of the
    network may be as they are.
    """
    if find_weights(graph, layer) is not None:
        return layer.nodes[0] in graph.integer_nodes
    read = [name for name in layer.inputs if name not in graph.inputs]
    made = [name for name in layer.outputs if name not in graph.outputs]
    return graph.integer and all(name in graph.packings for name in (*read, *made))


def lacks_integers(profile: Profile, graph: Graph) -> bool:
    """Whether layers on integer kernels are priced by what they take on floats."""
    return (
        graph.integer
        and graph.base is not None
        and profile.model_hash != graph.hash
        and (not profile.integer)
    )


def _copying(profile: Profile, amounts: Amounts, name: str) -> LayerProfile:
    amount = amounts.layers[name]
    row_s = profile.runs.copy_s_per_byte * amount.moved_bytes / amount.rows
    extents = sorted({1, amount.rows})
    samples = tuple(Sample(rows, row_s * rows, 1, 0.0) for rows in extents)
    return LayerProfile(amount.kind, amount.rows, False, samples)
