"""Which layers of a model a user's samples may train."""

from __future__ import annotations

from collections.abc import Sequence

from partita.errors import BundleError
from partita.graph import Graph


def first_trainable(graph: Graph, trainable: Sequence[str]) -> int:
    """The number of the first layer that may be trained; 0 also where there is none.

    Raises:
        BundleError: A name is none of a layer.
    """
    places = {layer.name: place for place, layer in enumerate(graph.layers)}
    unknown = [name for name in trainable if name not in places]
    fused = {graph.nodes[index].name: layer.name for layer in graph.layers for index in layer.nodes}
    if unknown and unknown[0] in fused:
        raise BundleError(
            f"Trainable layer '{unknown[0]}' is an operator of layer '{fused[unknown[0]]}': name"
            " that.",
            subject=unknown[0],
        )
    if unknown:
        raise BundleError(
            f"Trainable layer '{unknown[0]}' is unknown; allowed are the model's layers, such as"
            f" {', '.join(list(places)[-3:])}.",
            subject=unknown[0],
        )
    return min((places[name] for name in trainable), default=0)
