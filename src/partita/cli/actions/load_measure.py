"""What loading a model, and changing from one to another, takes on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from partita.cli.output import Reply, progress_bar
from partita.cli.sources import read_graph
from partita.loading import BlockProfile, measure_blocks, measure_switch, save_blocks
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bytes, format_seconds


def profile_blocks(
    model: Path,
    shapes: Sequence[str] | None,
    output: Path,
    *,
    device: str,
    threads: int,
    most_blocks: int,
    repeats: int,
    trainable: Sequence[str],
) -> Reply:
    """Measure the blocks of a model and write their profile."""
    graph = read_graph(model, shapes)
    with progress_bar("measuring blocks") as advance:
        profile = measure_blocks(
            graph,
            device=device,
            threads=threads,
            most_blocks=most_blocks,
            repeats=repeats,
            trainable=trainable,
            progress=advance,
        )
    save_blocks(profile, output)
    return describe_blocks(profile, output)


def describe_blocks(profile: BlockProfile, path: Path) -> Reply:
    """The blocks and what they take."""
    times = ("create_s", "prepack_s", "read_warm_s", "read_cold_s", "first_s", "infer_s")
    rows = [
        (
            block.name,
            str(block.stop - block.first),
            format_bytes(block.weight_bytes),
            *(format_seconds(getattr(block, name)) for name in times),
        )
        for block in profile.blocks
    ]
    totals = [sum(getattr(block, name) for block in profile.blocks) for name in times]
    layers, size = profile.blocks[-1].stop, sum(block.weight_bytes for block in profile.blocks)
    rows.append(("all", str(layers), format_bytes(size), *map(format_seconds, totals)))
    columns = ("block", "layers", "weights", "session", "prepack", "warm", "cold", "first", "run")
    table = draw_table(TableData(f"Blocks of {profile.model}", columns, tuple(rows)))
    lines = [
        f"One more child adds {format_seconds(profile.child_load_s)} to loading and"
        f" {format_seconds(profile.child_run_s)} to a run; a load takes"
        f" {profile.contention:.2f} times as long beside another.",
        f"Written to {path}",
    ]
    return Reply({"file": str(path)} | to_builtins(profile), [table, *lines])


def time_switch(bundle: Path, other: Path, repeats: int) -> Reply:
    """Change from one loaded bundle to another and back, up to the first answer."""
    switch = measure_switch(bundle, other, repeats=repeats)
    payload = {"there_s": switch.there_s, "back_s": switch.back_s, "count": switch.count}
    lines = [
        f"{bundle} to {other}: {format_seconds(switch.there_s)} (median of {switch.count})",
        f"{other} to {bundle}: {format_seconds(switch.back_s)}",
    ]
    return Reply(payload, [*lines])
