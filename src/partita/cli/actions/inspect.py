"""What a model is made of and how it can be divided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partita.cli.output import Reply
from partita.cli.sources import read_graph
from partita.compile.advice import Advice, advise
from partita.graph import Graph, Layer
from partita.graph.splits import row_axes
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bytes

_COLUMNS = (
    "layer", "kind", "output", "MMAC", "weights", "output size", "can be split by", "advised",
)  # fmt: skip


def inspect_model(path: Path, shapes: Sequence[str] | None) -> Reply:
    """Layers, cuts, work and weights of one model.

    Raises:
        ModelError: The file cannot be read.
    """
    graph = read_graph(path, shapes)
    axes = row_axes(graph)
    splits = {layer.name: list(axes.splits(layer.name)) for layer in graph.layers}
    advised = {layer.name: advise(graph, layer, splits[layer.name]) for layer in graph.layers}
    payload = {
        "model": graph.name,
        "hash": graph.hash,
        "inputs": _describe_tensors(graph, graph.inputs),
        "outputs": _describe_tensors(graph, graph.outputs),
        "parameters": graph.parameters,
        "macs": graph.macs,
        "weight_bytes": graph.weight_bytes,
        "barriers": [layer.name for layer in graph.layers if layer.barrier],
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "shape": _shape_of(graph, layer),
                "macs": layer.macs,
                "weight_bytes": layer.weight_bytes,
                "output_bytes": layer.output_bytes,
                "splits": splits[layer.name],
                "advised": advised[layer.name].split,
                "reason": advised[layer.name].reason,
                "barrier": layer.barrier,
            }
            for layer in graph.layers
        ],
        "cuts": [
            {"position": cut.position, "tensors": list(cut.tensors), "bytes": cut.bytes}
            for cut in graph.cuts()
        ],
    }
    rows = tuple(
        _show_layer(graph, layer, splits[layer.name], advised[layer.name]) for layer in graph.layers
    )
    table = draw_table(TableData("Layers", _COLUMNS, rows, text_columns=2))
    return Reply(payload, [table, *_list_facts(graph)])


def _describe_tensors(graph: Graph, names: Sequence[str]) -> list[dict[str, Any]]:
    specs = [graph.tensors[name] for name in names]
    return [{"name": s.name, "shape": list(s.shape), "dtype": s.dtype} for s in specs]


def _shape_of(graph: Graph, layer: Layer) -> list[int]:
    return list(graph.tensors[layer.outputs[0]].shape) if layer.outputs else []


def _show_layer(
    graph: Graph, layer: Layer, splits: Sequence[str], advice: Advice
) -> tuple[str, ...]:
    return (
        layer.name,
        layer.kind,
        _join(_shape_of(graph, layer)),
        f"{layer.macs / 1e6:,.1f}",
        format_bytes(layer.weight_bytes),
        format_bytes(layer.output_bytes),
        "whole (no rule)" if layer.barrier else ", ".join(splits) or "whole",
        f"{advice.split}: {advice.reason}",
    )


def _join(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _list_facts(graph: Graph) -> list[str]:
    cuts = graph.cuts()
    barriers = [layer.name for layer in graph.layers if layer.barrier]
    narrow = [cut for cut in cuts if len(cut.tensors) == 1]
    lines = [
        f"Model:       {graph.name} ({graph.hash[:12]})",
        *(
            f"{word:<12} {name} {_join(graph.tensors[name].shape)} {graph.tensors[name].dtype}"
            for word, names in (("Input:", graph.inputs), ("Output:", graph.outputs))
            for name in names
        ),
        f"Parameters:  {graph.parameters:,}",
        f"Work:        {graph.macs / 1e9:.3f} GMAC",
        f"Weights:     {format_bytes(graph.weight_bytes)}",
        f"Cuts:        {len(cuts)} positions, {len(narrow)} of them with one tensor",
    ]
    if barriers:
        lines.append(f"No rule for: {', '.join(barriers)} (run whole)")
    return lines
