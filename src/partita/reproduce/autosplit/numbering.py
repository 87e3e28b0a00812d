"""The paper's numbers of layers: those with weights, in the order in which they run."""

from __future__ import annotations

from partita.graph import POINTWISE, Graph, Layer


def weighted_groups(graph: Graph) -> list[list[str]]:
    """Layers with weights, each with those without that the paper fuses to it, in its order.

    Pooling with a window, sums and concatenations belong to the layer before if nobody else reads
    what that makes, all else to the one after. What a layer reads comes right before it, its own
    input before what is added.

    Returns:
        Names of all layers in a topological order; the place of a group is the paper's index.
    """
    home = _homes(graph)
    members: dict[str, list[str]] = {}
    for layer in graph.layers:
        members.setdefault(home[layer.name], []).append(layer.name)
    order: dict[str, None] = {}

    def visit(group: str) -> None:
        if group in order:
            return
        for name in members[group]:
            for tensor in graph.layer(name).inputs:
                maker = graph.producer(tensor)
                if maker is not None and home[maker.name] != group:
                    visit(home[maker.name])
        order[group] = None

    for output in graph.outputs:
        maker = graph.producer(output)
        if maker is not None:
            visit(home[maker.name])
    return [members[group] for group in order]


def _homes(graph: Graph) -> dict[str, str]:
    """By layer: the layer with weights that it belongs to."""
    home: dict[str, str] = {}
    for layer in graph.layers:
        before = _layer_before(graph, layer)
        if layer.macs:
            home[layer.name] = layer.name
        elif before in home:
            home[layer.name] = home[before]
    for layer in reversed(graph.layers):
        if layer.name not in home:
            readers = graph.readers(layer.outputs[0])
            home[layer.name] = home[readers[0].name] if readers else layer.name
    return home


def _layer_before(graph: Graph, layer: Layer) -> str:
    """The layer that one without weights can be fused to; empty if there is none."""
    joins = layer.window is not None or layer.kind in POINTWISE
    if not joins and layer.kind != "Concat":
        return ""
    tensor = layer.inputs[0 if joins else -1]
    maker = graph.producer(tensor)
    return "" if maker is None or len(graph.readers(tensor)) > 1 else maker.name
