"""Measuring this machine, or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from partita.cli.output import Reply, progress_bar
from partita.cli.sources import read_graph
from partita.profile import MeasureOptions, measure_profile, save_profile
from partita.units import format_seconds

__all__ = ["MeasureOptions", "profile_model"]


def profile_model(
    model: Path, shapes: Sequence[str] | None, output: Path, options: MeasureOptions
) -> Reply:
    """Measure a model's layers and write the profile."""
    graph = read_graph(model, shapes)
    with progress_bar("profiling") as advance:
        profile = measure_profile(graph, options, advance)
    save_profile(profile, output)
    layers = profile.layers.values()
    whole_s = profile.sum_of_layers_s
    payload = {
        "device": profile.device,
        "model": profile.model,
        "model_hash": profile.model_hash,
        "engine": profile.engine,
        "threads": profile.threads,
        "layers": len(layers),
        "samples": sum(len(layer.samples) for layer in layers),
        "sum_of_layers_s": whole_s,
        "sum_of_integer_layers_s": profile.sum_of_integer_layers_s,
        "file": str(output),
    }
    lines = [
        f"{payload['layers']} layers, {payload['samples']} extents measured on {profile.engine},"
        f" {profile.threads} thread(s)",
        f"Sum of whole layers: {format_seconds(whole_s)}",
    ]
    if profile.integer:
        integer_s = format_seconds(profile.sum_of_integer_layers_s or 0.0)
        lines.append(f"On integer kernels:  {integer_s}")
    lines.append(f"Written to {output}")
    return Reply(payload, [*lines])
