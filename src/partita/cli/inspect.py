"""``partita inspect``: what a model is made of and how it can be divided."""

from __future__ import annotations

from typing import Any

import typer

from partita.cli.flags import DebugOpt, JsonOpt, ModelArg, ShapeOpt


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("inspect")
    def inspect(
        model: ModelArg, shape: ShapeOpt = None, json: JsonOpt = False, debug: DebugOpt = False
    ) -> int:
        """Show layers, shapes, work, weights, legal cuts, and what can be split how."""
        from partita.cli.output import print_reply

        return print_reply(inspect_model(model, shape), as_json=json)


def inspect_model(model: Any, shape: list[str] | None) -> Any:
    """Return the reply for one model."""
    from partita.cli.output import Reply
    from partita.cli.sources import read_graph
    from partita.graph.splits import row_axes

    graph = read_graph(model, shape)
    axes = row_axes(graph)
    layers = [
        {
            "name": layer.name,
            "kind": layer.kind,
            "shape": list(graph.tensors[layer.outputs[0]].shape) if layer.outputs else [],
            "macs": layer.macs,
            "weight_bytes": layer.weight_bytes,
            "output_bytes": layer.output_bytes,
            "splits": list(axes.splits(layer.name)),
            "barrier": layer.barrier,
        }
        for layer in graph.layers
    ]
    cuts = [
        {"position": cut.position, "tensors": list(cut.tensors), "bytes": cut.bytes}
        for cut in graph.cuts()
    ]
    payload = {
        "model": graph.name,
        "hash": graph.hash,
        "inputs": _describe(graph, graph.inputs),
        "outputs": _describe(graph, graph.outputs),
        "parameters": graph.parameters,
        "macs": graph.macs,
        "weight_bytes": graph.weight_bytes,
        "barriers": [layer["name"] for layer in layers if layer["barrier"]],
        "layers": layers,
        "cuts": cuts,
    }
    return Reply(payload, _show(payload))


def _describe(graph: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    specs = [graph.tensors[name] for name in names]
    return [{"name": s.name, "shape": list(s.shape), "dtype": s.dtype} for s in specs]


def _show(payload: dict[str, Any]) -> list[Any]:
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.units import format_bytes

    rows = tuple(
        (
            layer["name"],
            layer["kind"],
            "x".join(map(str, layer["shape"])),
            f"{layer['macs'] / 1e6:,.1f}",
            format_bytes(layer["weight_bytes"]),
            format_bytes(layer["output_bytes"]),
            "whole (no rule)" if layer["barrier"] else ", ".join(layer["splits"]) or "whole",
        )
        for layer in payload["layers"]
    )
    columns = ("layer", "kind", "output", "MMAC", "weights", "output size", "can be split by")
    single = [cut for cut in payload["cuts"] if len(cut["tensors"]) == 1]
    lines = [
        f"Model:       {payload['model']} ({payload['hash'][:12]})",
        *(
            f"{word:<12} {one['name']} {'x'.join(map(str, one['shape']))} {one['dtype']}"
            for word, key in (("Input:", "inputs"), ("Output:", "outputs"))
            for one in payload[key]
        ),
        f"Parameters:  {payload['parameters']:,}",
        f"Work:        {payload['macs'] / 1e9:.3f} GMAC",
        f"Weights:     {format_bytes(payload['weight_bytes'])}",
        f"Cuts:        {len(payload['cuts'])} positions, {len(single)} of them with one tensor",
    ]
    if payload["barriers"]:
        lines.append(f"No rule for: {', '.join(payload['barriers'])} (run whole)")
    return [draw_table(TableData("Layers", columns, rows, text_columns=2)), *lines]
