"""Which layers round on floats what they make, unseen by their profile."""

from __future__ import annotations

from partita.cost.profiled_layers import runs_on_integers
from partita.graph import Graph
from partita.profile import Profile


def find_rounding(graph: Graph, profile: Profile | None) -> frozenset[str]:
    """The layers that round on floats what they make, which the profile did not see.

    A profile of the quantised graph itself has it in its layers. Layers of their own that round
    inputs are priced as such.
    """
    if profile is None or graph.base is None or profile.model_hash == graph.hash:
        return frozenset()
    known = {layer.name for layer in graph.base.layers}
    return frozenset(
        layer.name
        for layer in graph.layers
        if layer.name in known
        and any(graph.nodes[place].op == "QuantizeLinear" for place in layer.nodes)
        and not (layer.name in profile.integer and runs_on_integers(graph, layer))
    )
