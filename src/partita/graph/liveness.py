"""Which tensors are in memory while layers run one after the other, in any order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partita.graph.layer import Layer

#: Names of tensors, in the order in which they came to be.
Tensors = tuple[str, ...]


def live_tensors(
    layers: Sequence[Layer], inputs: Sequence[str], outputs: Collection[str]
) -> tuple[Tensors, ...]:
    """The tensors that are still needed at each place of an order; one place more than layers.

    Before the first layer these are the inputs that a layer reads; after the last the outputs. An
    output is needed from where it is made.

    Args:
        layers: All of a network, in a topological order.
        inputs: What a request feeds.
        outputs: What a request gets back.
    """
    last = {name: place for place, layer in enumerate(layers) for name in layer.inputs}
    last |= dict.fromkeys(outputs, len(layers))
    live = [name for name in inputs if name in last]
    places = [tuple(live)]
    for place, layer in enumerate(layers):
        live += layer.outputs
        live = [name for name in live if last.get(name, -1) > place]
        places.append(tuple(live))
    return tuple(places)


def working_sets(layers: Sequence[Layer], live: Sequence[Tensors]) -> tuple[Tensors, ...]:
    """The tensors in memory while each layer runs: what it reads and makes, what others still read.

    Args:
        layers: In a topological order.
        live: What is needed at each place of this order, see :func:`live_tensors`.

    Source: AUTO-SPLIT, section 3.2, with the skip connections of figure 4.
    """
    return tuple(
        (*before, *(name for name in layer.outputs if name not in before))
        for layer, before in zip(layers, live, strict=False)
    )
