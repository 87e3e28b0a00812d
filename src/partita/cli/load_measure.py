"""``partita load profile`` and ``partita load switch``: what loading takes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import DebugOpt, JsonOpt, ModelArg, ShapeOpt, from_to


def register(load: typer.Typer) -> None:
    """Add the verbs to those of ``partita load``."""
    _register_profile(load)
    _register_switch(load)


def _register_profile(load: typer.Typer) -> None:
    @load.command("profile")
    def profile(
        model: ModelArg,
        output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
        device: Annotated[
            str, typer.Option("--device", help="What kind of device this machine is.")
        ] = "this-machine",
        threads: Annotated[
            int, typer.Option("--threads", callback=from_to(1, 256), help="Within one operator.")
        ] = 1,
        blocks: Annotated[
            int, typer.Option("--most", callback=from_to(1, 256), help="Most blocks.")
        ] = 24,
        repeats: Annotated[
            int, typer.Option("--repeats", callback=from_to(1, 1000), help="Of everything.")
        ] = 5,
        trainable: Annotated[
            list[str] | None,
            typer.Option("--trainable", help="Layer that may be trained; may be repeated."),
        ] = None,
        shape: ShapeOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Measure what each block of a model takes to load and to run, for 'split --blocks'."""
        from partita.cli.output import check_output, print_reply, progress_bar
        from partita.cli.sources import read_graph
        from partita.errors import InputError
        from partita.loading import measure_blocks, save_blocks
        from partita.naming import NAME_RULE, is_name

        check_output(output, model)
        if device == "portable":
            raise InputError("--device 'portable' is the scheme of all others; name another.")
        if not is_name(device):
            raise InputError(f"--device '{device}' is no name; allowed: {NAME_RULE}.")
        graph = read_graph(model, shape)
        with progress_bar("measuring blocks") as advance:
            found = measure_blocks(
                graph,
                most_blocks=blocks,
                threads=threads,
                repeats=repeats,
                trainable=trainable or (),
                device=device,
                progress=advance,
            )
        save_blocks(found, output)
        return print_reply(describe_blocks(found, output), as_json=json)


def _register_switch(load: typer.Typer) -> None:
    @load.command("switch")
    def switch(
        bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The model in use.")],
        other: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to change to.")],
        repeats: Annotated[
            int, typer.Option("--repeats", callback=from_to(1, 1000), help="Changes each way.")
        ] = 10,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Measure what changing from one loaded model to another takes, up to the first answer."""
        from partita.cli.output import Reply, print_reply
        from partita.loading import measure_switch
        from partita.units import format_seconds

        found = measure_switch(bundle, other, repeats=repeats)
        payload = {"there_s": found.there_s, "back_s": found.back_s, "count": found.count}
        lines = [
            f"{bundle} to {other}: {format_seconds(found.there_s)} (median of {found.count})",
            f"{other} to {bundle}: {format_seconds(found.back_s)}",
        ]
        return print_reply(Reply(payload, [*lines]), as_json=json)


def describe_blocks(profile: Any, path: Path) -> Any:
    """Return the reply that lists the blocks and what they take."""
    from msgspec import to_builtins

    from partita.cli.output import Reply
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.units import format_bytes, format_seconds

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
